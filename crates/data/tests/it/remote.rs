//! Files in buckets: the same batches as from files here, from what is kept where possible, within the limits.

use std::path::{Path, PathBuf};

use data::{
    Batching, DataFile, Dataset, ImageFolder, ImageOptions, RemoteData, RemoteOptions, Shard, Split, TextOptions,
    TokenDataset, TokenWidth, Tokenizer, WindowOptions, stories,
};
use testkit::{Random, StoreKind, StoreServer, WebServer};
use weights::{Access, Store};

use crate::hostile::options;

fn tokens(count: usize) -> Vec<u8> {
    let mut random = Random::new(7);
    (0..count).flat_map(|_| ((random.next_u64() % 1000) as u16).to_le_bytes()).collect()
}

fn windows(batch: usize, split: Split) -> WindowOptions {
    WindowOptions { sequence_length: 64, vocab_size: Some(1000), split, batching: Batching::new(batch, 3) }
}

fn access(server: &StoreServer) -> Access {
    server.environment().into_iter().fold(Access::default(), |access, (name, value)| access.with(name, &value))
}

fn remote(server: &StoreServer, folder: &Path) -> RemoteData {
    let (part_bytes, block_bytes) = (64 << 10, 8 << 10);
    RemoteData::new(RemoteOptions { access: access(server), part_bytes, block_bytes, ..options(folder) }).unwrap()
}

#[track_caller]
fn assert_same(here: &dyn Dataset, there: &dyn Dataset, steps: u64) {
    for step in 0..steps {
        assert!(here.batch(step).unwrap() == there.batch(step).unwrap(), "step {step}");
    }
    assert_eq!(here.describe(), there.describe());
    assert_eq!(here.fingerprint().unwrap(), there.fingerprint().unwrap());
    assert_eq!(here.batches_per_epoch(), there.batches_per_epoch());
}

/// Tokens, text and images in a bucket give what files here give.
fn a_bucket_is_as_good_as_a_disk(server: &StoreServer) {
    let here = tempfile::tempdir().unwrap();
    let store = Store::open_with(&server.location("data"), &access(server)).unwrap();
    let put = |name: &str, bytes: &[u8]| {
        let path = here.path().join("data").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        store.put(name, bytes).unwrap();
        path
    };
    let mut paths: Vec<PathBuf> = vec![put("a.bin", &tokens(30_000)), put("b.bin", &tokens(9_001))];
    let mut npy = b"\x93NUMPY\x01\x00\x46\x00{'descr': '<u2', 'fortran_order': False, 'shape': (5000,), }".to_vec();
    npy.resize(79, b' ');
    npy.push(b'\n');
    npy.extend(tokens(5000));
    paths.push(put("c.npy", &npy));
    let data = remote(server, &here.path().join("cache"));
    let there: Vec<DataFile> = ["a.bin", "b.bin", "c.npy"]
        .map(|name| data.open(&server.location(&format!("data/{name}"))).unwrap().into())
        .into();
    for split in [Split::All, Split::Validation { validation_fraction: 0.3 }] {
        let from_here = TokenDataset::open(&paths, TokenWidth::U16, windows(8, split)).unwrap();
        let from_there = TokenDataset::open_files(&there, TokenWidth::U16, windows(8, split)).unwrap();
        assert_same(&from_here, &from_there, 30);
    }

    let text = stories(5, 60_000);
    let text_path = put("text.txt", text.as_bytes());
    let text_options =
        |cache: &str| TextOptions { tokenizer: Tokenizer::bytes(), separator: None, cache: here.path().join(cache) };
    let from_here = TokenDataset::from_text(&[text_path], &text_options("t1"), windows(4, Split::All)).unwrap();
    let address = server.location("data/text.txt");
    let text_there = [DataFile::from(data.open(&address).unwrap())];
    let from_there = TokenDataset::from_text_files(&text_there, &text_options("t2"), windows(4, Split::All)).unwrap();
    assert_same(&from_here, &from_there, 20);
    // The tokens of a version are made once: another run asks for the version and fetches nothing.
    let again = remote(server, &here.path().join("another cache"));
    let text_there = [DataFile::from(again.open(&address).unwrap())];
    TokenDataset::from_text_files(&text_there, &text_options("t2"), windows(4, Split::All)).unwrap();
    // The key of a version is that of its cache, so that the same folder knows it.
    assert_eq!(again.stats().fetched_bytes, 0);

    for n in 0..6u8 {
        let class = if n % 2 == 0 { "even" } else { "odd" };
        let mut png = Vec::new();
        let mut encoder = png::Encoder::new(&mut png, 8, 8);
        encoder.set_color(png::ColorType::Rgb);
        encoder.write_header().unwrap().write_image_data(&[n * 40; 8 * 8 * 3]).unwrap();
        put(&format!("images/{class}/{n}.png"), &png);
    }
    put("images/even/notes.txt", b"no image");
    put("images/odd/.hidden.png", b"no image");
    let options = ImageOptions::new(8, 8, Batching::new(2, 1));
    let from_here = ImageFolder::open(&here.path().join("data/images"), options).unwrap();
    let from_there = ImageFolder::open_remote(&data, &server.location("data/images"), options).unwrap();
    assert_eq!(from_here.classes(), from_there.classes());
    assert_same(&from_here, &from_there, 9);
}

#[test]
fn data_in_s3_is_as_good_as_on_a_disk() {
    let Some(server) = StoreServer::start("data_in_s3_is_as_good_as_on_a_disk", StoreKind::S3) else { return };
    a_bucket_is_as_good_as_a_disk(&server);
    // An object that is replaced under a run.
    let store = Store::open_with(&server.location("data"), &access(&server)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let data = remote(&server, folder.path());
    let file = data.open(&server.location("data/a.bin")).unwrap();
    file.read_at(0..100).unwrap();
    store.put("a.bin", &tokens(30_001)[2..]).unwrap();
    let error = file.read_at(0..60_000).unwrap_err();
    assert!(error.to_string().contains("s3://bucket/data/a.bin was changed"), "{error}");
    // One that is not there, and a bucket that is not.
    for address in ["s3://bucket/data/none.bin", "s3://nowhere/a.bin"] {
        let error = data.open(address).unwrap_err();
        assert!(error.to_string().contains(address), "{error}");
    }
}

#[test]
fn data_in_google_storage_is_as_good_as_on_a_disk() {
    let Some(server) = StoreServer::start("data_in_google_storage", StoreKind::Google) else { return };
    a_bucket_is_as_good_as_a_disk(&server);
}

#[test]
fn what_is_kept_is_not_fetched_again_and_not_believed_blindly() {
    let contents = tokens(50_000);
    let server = WebServer::start(contents.clone(), Some("one"));
    let folder = tempfile::tempdir().unwrap();
    let address = server.address("a.bin");
    let fetched = || {
        let data = RemoteData::new(options(folder.path())).unwrap();
        let file = data.open(&address).unwrap();
        assert!(file.read_at(0..100_000).unwrap() == contents);
        data.stats().fetched_bytes
    };
    assert_eq!(fetched(), 100_000);
    assert_eq!(fetched(), 0);
    let file = |ending: &str| {
        let found = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
        found.into_iter().find(|path| path.extension().is_some_and(|extension| extension == ending)).unwrap()
    };
    // A damaged block is fetched again, and no other.
    let mut bytes = std::fs::read(file("data")).unwrap();
    bytes[5 << 10] ^= 1;
    std::fs::write(file("data"), &bytes).unwrap();
    assert_eq!(fetched(), 1 << 10);
    assert_eq!(fetched(), 0);
    // A file that is cut, a list that is cut, a list of nobody.
    std::fs::write(file("data"), &bytes[..50_000]).unwrap();
    assert!((1..100_000).contains(&fetched()));
    let list = std::fs::read(file("blocks")).unwrap();
    std::fs::write(file("blocks"), &list[..list.len() - 3]).unwrap();
    assert_eq!(fetched(), 100_000);
    std::fs::write(file("blocks"), b"something else").unwrap();
    assert_eq!(fetched(), 100_000);
    std::fs::remove_file(file("data")).unwrap();
    assert_eq!(fetched(), 100_000);
}

#[test]
fn each_shard_fetches_its_own_rows() {
    // 256 blocks of 1 KiB, windows of 130 bytes.
    let contents = tokens(131_072);
    let server = WebServer::start(contents.clone(), Some("one"));
    let whole = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(whole.path(), &contents).unwrap();
    let here = TokenDataset::open(&[whole.path().into()], TokenWidth::U16, windows(64, Split::All)).unwrap();
    let mut fetched = Vec::new();
    for index in 0..8 {
        let folder = tempfile::tempdir().unwrap();
        let data = RemoteData::new(options(folder.path())).unwrap();
        let file = DataFile::from(data.open(&server.address("a.bin")).unwrap());
        let there = TokenDataset::open_files(&[file], TokenWidth::U16, windows(64, Split::All)).unwrap();
        let shard = Shard { index, count: 8 };
        assert!(there.rows(0, shard).unwrap() == here.rows(0, shard).unwrap());
        fetched.push(data.stats().fetched_bytes);
    }
    // Eight rows of this step and of four steps ahead: at most two blocks each, of 256 in all.
    assert!(fetched.iter().all(|bytes| *bytes <= 5 * 8 * 2 * 1024), "{fetched:?}");
    assert!(fetched.iter().all(|bytes| *bytes >= 8 * 1024), "{fetched:?}");
}

#[test]
fn the_cache_stays_below_its_limit() {
    let contents = tokens(1 << 20);
    let server = WebServer::start(contents.clone(), Some("one"));
    let folder = tempfile::tempdir().unwrap();
    // 512 KiB of 2 MiB.
    let small = || RemoteOptions { cache_max_bytes: Some(512 << 10), ..options(folder.path()) };
    let data = RemoteData::new(small()).unwrap();
    let file = data.open(&server.address("a.bin")).unwrap();
    let on_disk = || -> u64 {
        let files = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().metadata().unwrap());
        files.map(|metadata| std::os::unix::fs::MetadataExt::blocks(&metadata) * 512).sum()
    };
    let mut most = 0;
    for round in 0..3 {
        for (n, expected) in contents.chunks(64 << 10).enumerate() {
            let start = n as u64 * (64 << 10);
            assert!(file.read_at(start..start + (64 << 10)).unwrap() == expected, "round {round}, piece {n}");
            most = most.max(on_disk());
        }
    }
    // What is on the way comes on top: four requests of 16 KiB, and the list.
    assert!(most <= (512 + 4 * 16 + 64 + 64) << 10, "{most} bytes");
    assert!(data.stats().cache_bytes <= 600 << 10, "{:?}", data.stats());
    drop((data, file));
    // Another file: what nobody reads any more makes room.
    let other = WebServer::start(tokens(1 << 18), Some("two"));
    let data = RemoteData::new(small()).unwrap();
    let file = data.open(&other.address("b.bin")).unwrap();
    file.read_at(0..512 << 10).unwrap();
    assert!(on_disk() <= 700 << 10, "{} bytes", on_disk());
    // A limit too small to read anything is raised to what is needed.
    let data = RemoteData::new(RemoteOptions { cache_max_bytes: Some(1), ..options(folder.path()) }).unwrap();
    let file = data.open(&server.address("a.bin")).unwrap();
    assert!(file.read_at(0..2 << 20).unwrap() == contents);
}

#[test]
fn two_processes_share_a_cache() {
    let contents = tokens(1 << 18);
    let server = WebServer::start(contents.clone(), Some("one"));
    let folder = tempfile::tempdir().unwrap();
    let small = || RemoteOptions { cache_max_bytes: Some(300 << 10), ..options(folder.path()) };
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let (server, contents, small) = (&server, &contents, &small);
            scope.spawn(move || {
                // A cache of its own, as of another process, in the same folder.
                let data = RemoteData::new(small()).unwrap();
                let file = data.open(&server.address("a.bin")).unwrap();
                let mut random = Random::new(seed);
                for _ in 0..200 {
                    let start = random.next_u64() as usize % (contents.len() - 5000);
                    let found = file.read_at(start as u64..start as u64 + 5000).unwrap();
                    assert!(found == contents[start..start + 5000], "{start}");
                }
            });
        }
    });
}
