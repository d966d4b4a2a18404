//! Hugging Face's own safetensors library reads our files, and we read what it writes.

use std::fs;
use std::process::Command;

use tensor::DType;
use testkit::{Needed, require};
use weights::{CheckpointManager, Keep, SafeTensorsFolder, Saver, Store};

use crate::state::{snapshot, tensors};

fn python(interpreter: &std::path::Path, script: &str, folder: &std::path::Path) -> String {
    let output = Command::new(interpreter).args(["-c", script]).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn their_library_reads_the_files_of_a_checkpoint() {
    let Some(interpreter) = require("their_library_reads_the_files", Needed::StoresPython) else { return };
    let folder = tempfile::tempdir().unwrap();
    let manager = CheckpointManager::at(Store::folder(folder.path()));
    Saver::new(manager, Keep::ALL).unwrap().with_file_bytes(20_000).save(snapshot(3)).unwrap();
    let script = "
import glob, safetensors
for path in sorted(glob.glob('step-00000003/*.safetensors')):
    for name, tensor in safetensors.deserialize(open(path, 'rb').read()):
        print(name, tensor['dtype'], tensor['shape'], bytes(tensor['data']).hex()[:64])
";
    let printed = python(&interpreter, script, folder.path());
    let expected = tensors(3);
    assert_eq!(printed.lines().count(), expected.len(), "{printed}");
    for (name, literal) in &expected {
        let hex: String = literal.bytes().iter().take(32).map(|byte| format!("{byte:02x}")).collect();
        let line = printed.lines().find(|line| line.split(' ').next() == Some(name)).unwrap();
        assert!(line.trim_end().ends_with(&hex), "{line}");
    }
}

#[test]
fn a_model_their_library_wrote_in_several_files_is_read_as_one() {
    let Some(interpreter) = require("a_model_their_library_wrote", Needed::StoresPython) else { return };
    let folder = tempfile::tempdir().unwrap();
    let script = "
import json, numpy as np
from safetensors.numpy import save_file
index = {}
for part in (1, 2, 3):
    name = f'model-{part:05}-of-00003.safetensors'
    tensors = {f'layers.{part}.{kind}': np.arange(part * 6, dtype=dtype).reshape(part, 6) for kind, dtype in (('w', 'float32'), ('h', 'float16'), ('n', 'int64'))}
    save_file(tensors, name, metadata={'format': 'pt'})
    index.update({key: name for key in tensors})
json.dump({'metadata': {'total_size': 1}, 'weight_map': index}, open('model.safetensors.index.json', 'w'))
";
    python(&interpreter, script, folder.path());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 4);
    let model = SafeTensorsFolder::open(folder.path()).unwrap();
    assert_eq!(model.entries().count(), 9);
    for part in 1..=3usize {
        let floats: Vec<u8> = (0..part * 6).flat_map(|n| (n as f32).to_le_bytes()).collect();
        let integers: Vec<u8> = (0..part * 6).flat_map(|n| (n as i64).to_le_bytes()).collect();
        for name in ["w", "h"] {
            let read = model.read_as(&format!("layers.{part}.{name}"), DType::F32).unwrap();
            assert_eq!((read.dims(), read.bytes()), ([part, 6].as_slice(), floats.as_slice()));
        }
        assert_eq!(model.read(&format!("layers.{part}.n")).unwrap().bytes(), integers);
    }
}
