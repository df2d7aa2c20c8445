//! Some cells of the matrix of `docs/faults`, chosen by a seed: the short form of the published run.

use std::process::Command;

use crate::support::server::is_missing;
use crate::testbed::{note, seed, size, turn};

#[test]
fn some_cells_of_the_matrix_have_no_violations() {
    if is_missing() {
        return;
    }
    let _turn = turn();
    let (cells, seconds) = (size("LEASEHOLD_CELLS", 6), size("LEASEHOLD_CELL_SECONDS", 10));
    let seed = seed("cells");
    let out = std::env::temp_dir().join(format!("leasehold-cells-{}", std::process::id()));
    let run = Command::new(env!("CARGO_BIN_EXE_leasehold-faults"))
        .args(["matrix", "--sample", &cells.to_string(), "--seconds", &seconds.to_string()])
        .args(["--seed", &(seed % (1 << 32)).to_string()])
        .arg("--out")
        .arg(&out)
        .output()
        .expect("the program runs");
    let told = [run.stdout, run.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    note(&told.concat());
    assert!(run.status.success(), "{}: {}", out.display(), told.concat());
    std::fs::remove_dir_all(&out).expect("it is there");
}
