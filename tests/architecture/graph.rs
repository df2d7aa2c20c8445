//! The files of a crate and what they import from each other.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// A file of a crate by its module path, `lock::guard` for example.
pub(crate) type Module = String;

pub(crate) struct Import {
    path: Vec<String>,
    /// The import is a re-export.
    public: bool,
}

fn sources(src: &Path) -> BTreeMap<Module, Vec<Import>> {
    let (mut modules, mut folders) = (BTreeMap::new(), vec![src.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of src") {
            let path = entry.expect("an entry").path();
            let name = path
                .file_stem()
                .expect("a name")
                .to_string_lossy()
                .into_owned();
            if ["tests", "doctests", "lib", "main"].contains(&&*name) {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let inside = path.strip_prefix(src).expect("in src").with_extension("");
                let module = inside.to_string_lossy().replace(['/', '\\'], "::");
                let text = fs::read_to_string(&path).expect("a source file");
                modules.insert(module, imports(&text));
            }
        }
    }
    modules
}

/// The paths that a file names, in `use` statements and elsewhere if they begin at the crate or
/// above.
fn imports(text: &str) -> Vec<Import> {
    let code = text
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default());
    let code = code.collect::<Vec<_>>().join("\n");
    let code = crate::without_tests(&code);
    let (mut found, mut rest) = (Vec::new(), String::new());
    let mut lines = code.lines();
    while let Some(line) = lines.next() {
        let Some((visibility, tree)) = use_tree(line) else {
            rest.extend([line, "\n"]);
            continue;
        };
        let mut tree = tree.to_owned();
        while !tree.trim_end().ends_with(';') {
            tree.push_str(lines.next().expect("a statement has an end"));
        }
        let public = !visibility.is_empty();
        let tree = tree.trim_end().trim_end_matches(';');
        expand("", tree, &mut |path| found.push(Import { path, public }));
    }
    for start in ["crate::", "super::"] {
        for (at, _) in rest.match_indices(start) {
            let within =
                rest[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':');
            if !within {
                let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
                let end = rest[at..]
                    .find(|c| !is_path(c))
                    .map_or(rest.len(), |end| at + end);
                let path = rest[at..end].split("::").map(str::to_owned).collect();
                found.push(Import {
                    path,
                    public: false,
                });
            }
        }
    }
    found
}

/// The visibility and the tree of a line that begins a `use` statement.
fn use_tree(line: &str) -> Option<(&str, &str)> {
    let (visibility, tree) = line.trim_start().split_once("use ")?;
    // Not `pub(super) enum Pause {`.
    let is_visibility =
        |text: &str| text.starts_with("pub") && (text == "pub " || text.ends_with(") "));
    (visibility.is_empty() || is_visibility(visibility)).then_some((visibility, tree))
}

/// `a::{b, c::d}` is `a::b` and `a::c::d`.
fn expand(before: &str, tree: &str, add: &mut impl FnMut(Vec<String>)) {
    let tree = tree.trim();
    if let Some((head, body)) = tree.split_once('{') {
        let body = body.trim_end().strip_suffix('}').expect("a closed brace");
        let (mut depth, mut start) = (0, 0);
        for (at, letter) in body.char_indices().chain([(body.len(), ',')]) {
            match letter {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    if !body[start..at].trim().is_empty() {
                        expand(&format!("{before}{head}"), &body[start..at], add);
                    }
                    start = at + 1;
                }
                _ => {}
            }
        }
        return;
    }
    let name = tree.split(" as ").next().unwrap_or(tree);
    add(format!("{before}{name}")
        .split("::")
        .map(|part| part.trim().to_owned())
        .collect());
}

pub(crate) struct Graph {
    pub(crate) modules: BTreeMap<Module, Vec<Import>>,
    /// Which file defines an item that a module re-exports.
    exported: BTreeMap<(Module, String), Module>,
}

impl Graph {
    /// The files below the root of a crate, except unit tests and the root itself, which knows all
    /// of them. A re-export by the root counts, too.
    pub(crate) fn of(src: &Path) -> Self {
        let mut graph = Graph {
            modules: sources(src),
            exported: BTreeMap::new(),
        };
        let root = fs::read_to_string(src.join("lib.rs")).expect("the root of a crate");
        let root = (Module::new(), imports(&root));
        // A re-export of a re-export needs another look.
        for _ in 0..3 {
            let mut exported = BTreeMap::new();
            let modules = graph.modules.iter().chain([(&root.0, &root.1)]);
            for (module, imports) in modules {
                for import in imports.iter().filter(|import| import.public) {
                    if let Some(origin) = graph.resolve(module, &import.path) {
                        let item = import.path.last().cloned().unwrap_or_default();
                        exported.insert((module.clone(), item), origin);
                    }
                }
            }
            graph.exported = exported;
        }
        graph
    }

    /// The file that defines what a path means in a module. None if it belongs to another crate.
    fn resolve(&self, module: &str, path: &[String]) -> Option<Module> {
        let mut at: Vec<&str> = module.split("::").filter(|part| !part.is_empty()).collect();
        let mut path = path;
        match path[0].as_str() {
            "crate" => (at, path) = (Vec::new(), &path[1..]),
            "self" | "super" => {
                while let [first, rest @ ..] = path
                    && (first == "self" || first == "super")
                {
                    if first == "super" {
                        at.pop();
                    }
                    path = rest;
                }
            }
            child => {
                let child = [&at[..], &[child]].concat().join("::");
                if !self.modules.contains_key(&child) {
                    return None;
                }
            }
        }
        while let [next, rest @ ..] = path {
            let deeper = [&at[..], &[next]].concat();
            if !self.modules.contains_key(&deeper.join("::")) {
                break;
            }
            (at, path) = (deeper, rest);
        }
        let file = at.join("::");
        let item = path.first().cloned().unwrap_or_default();
        let origin = self
            .exported
            .get(&(file.clone(), item))
            .cloned()
            .unwrap_or(file);
        (!origin.is_empty()).then_some(origin)
    }

    /// The files that a file imports, except its ancestors.
    pub(crate) fn imported_by(&self, module: &str) -> BTreeSet<Module> {
        let imports = self.modules.get(module).into_iter().flatten();
        let files = imports.filter_map(|import| self.resolve(module, &import.path));
        let is_above = |file: &Module| {
            file == module
                || module
                    .strip_prefix(&**file)
                    .is_some_and(|rest| rest.starts_with("::"))
        };
        files.filter(|file| !is_above(file)).collect()
    }
}

impl Graph {
    /// The sets of files that import each other, directly or through others.
    pub(crate) fn circles(&self) -> Vec<BTreeSet<&Module>> {
        let reached: BTreeMap<_, _> = self
            .modules
            .keys()
            .map(|module| (module, self.reached_from(module)))
            .collect();
        let mut circles = Vec::new();
        for (module, files) in &reached {
            let reaches_back = |file: &&Module| reached[file].contains(*module);
            let circle: BTreeSet<_> = reached
                .keys()
                .copied()
                .filter(|file| files.contains(*file))
                .filter(reaches_back)
                .collect();
            // Each file of a circle finds it: the first one reports it.
            if circle.first() == Some(module) {
                circles.push(circle);
            }
        }
        circles
    }

    /// The files that a file imports, and those that these import, and so on.
    fn reached_from(&self, module: &str) -> BTreeSet<Module> {
        let (mut reached, mut next) = (BTreeSet::new(), vec![module.to_owned()]);
        while let Some(module) = next.pop() {
            for imported in self.imported_by(&module) {
                if reached.insert(imported.clone()) {
                    next.push(imported);
                }
            }
        }
        reached
    }
}

/// Every source file of a folder except unit tests.
pub(crate) fn each_source(folder: &Path, look: &mut impl FnMut(&Path, &str)) {
    for entry in fs::read_dir(folder).expect("a folder of src") {
        let path = entry.expect("an entry").path();
        let name = path
            .file_stem()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        if ["tests", "doctests"].contains(&&*name) {
            continue;
        }
        if path.is_dir() {
            each_source(&path, look);
        } else {
            look(&path, &fs::read_to_string(&path).expect("a source file"));
        }
    }
}

/// Every Rust file of a folder. What builds and tools keep there is left out.
pub(crate) fn each_file(folder: &Path, look: &mut impl FnMut(&Path, &str)) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy();
        if name == "target" || name.starts_with('.') {
            continue;
        }
        if path.is_dir() {
            each_file(&path, look);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            look(&path, &fs::read_to_string(&path).expect("a source file"));
        }
    }
}
