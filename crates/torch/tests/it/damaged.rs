//! Archives that were cut or altered: refused with a reason, or still a program; never a panic.

use testkit::{Mutator, Needed};
use torch::Archive;

#[test]
fn mutated_archives_are_refused_or_right() {
    let Some(folder) = testkit::require("mutated_archives_are_refused_or_right", Needed::TorchExport) else { return };
    let names = ["format-2.5.1", "format-2.8.0", "format-2.15.0", "mlp", "branch.functional"];
    let seeds = names.map(|name| std::fs::read(folder.join(format!("{name}.pt2"))).unwrap());
    let mut mutator = Mutator::new(23, seeds.to_vec());
    let file = std::env::temp_dir().join(format!("tpubridge-mutated-{}.pt2", std::process::id()));
    let (mut opened, mut traced) = (0, 0);
    for _ in 0..10_000 {
        std::fs::write(&file, mutator.next_input()).unwrap();
        let archive = match Archive::open(&file) {
            Ok(archive) => archive,
            Err(error) => {
                assert!(!error.to_string().is_empty() && !error.remedy().is_empty());
                continue;
            }
        };
        opened += 1;
        for name in archive.tensor_names() {
            let _ = archive.tensor(name);
        }
        let program = archive.program();
        traced += usize::from(program.trace("main", &program.examples).is_ok());
    }
    std::fs::remove_file(&file).unwrap();
    assert!(opened > 100 && traced > 50, "{opened} were opened, {traced} translated: the mutations are too coarse");
}
