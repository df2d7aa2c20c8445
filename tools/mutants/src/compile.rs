//! Checks that the library compiles with each fault. Faults are applied many at once, because a
//! build takes seconds.

use std::path::Path;

use crate::Result;
use crate::copy::Copy;
use crate::patch::Patch;

/// Prints the faults with which the library does not compile. True if there are none.
pub(crate) fn compile(root: &Path, patches: &[Patch]) -> Result<bool> {
    let copy = Copy::make(root)?;
    copy.check()?;
    let is_rust = |file: &String| Path::new(file).extension().is_some_and(|end| end == "rs");
    let patches: Vec<_> = patches
        .iter()
        .filter(|patch| patch.files.iter().any(is_rust))
        .collect();
    let unfit = unfit(&copy, &patches)?;
    for (patch, fault) in &unfit {
        println!("{}: {fault}", patch.name);
    }
    println!(
        "{} patches of Rust sources, {} do not compile",
        patches.len(),
        unfit.len()
    );
    Ok(unfit.is_empty())
}

/// The patches with which the library does not compile, and the error.
fn unfit<'a>(copy: &Copy, patches: &[&'a Patch]) -> Result<Vec<(&'a Patch, String)>> {
    let mut unfit = Vec::new();
    let mut left = patches.to_vec();
    while !left.is_empty() {
        let (applied, others): (Vec<&Patch>, _) =
            left.iter().partition(|patch| copy.apply(patch).is_ok());
        if applied.is_empty() {
            return Err(format!("{} does not apply", left[0].name));
        }
        let built = copy.check();
        applied.iter().try_for_each(|patch| copy.restore(patch))?;
        match (built, &applied[..]) {
            (Ok(()), _) => {}
            (Err(fault), [patch]) => unfit.push((*patch, fault)),
            // One of them does not compile, or two do not compile together.
            (Err(_), many) => {
                let (one, other) = many.split_at(many.len() / 2);
                for half in [one, other] {
                    unfit.extend(self::unfit(copy, half)?);
                }
            }
        }
        left = others;
    }
    Ok(unfit)
}
