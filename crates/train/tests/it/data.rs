//! Datasets: the same batches from the same seed and step, parts that fit together, and errors that name what is wrong.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};

use runtime::Spec;
use tensor::{DType, Literal};
use train::data::{
    Augment, Batching, DataError, Dataset, Flip, ImageFit, ImageFolder, ImageOptions, Loader, LoaderOptions,
    MarkovOptions, MarkovTokens, STORIES_BYTES, STORIES_SEED, ShapeImages, ShapeOptions, Split, TextOptions,
    TokenDataset, TokenWidth, Tokenizer, WindowOptions, check_vocab_size, stories, tokenize_files,
};

fn windows(sequence: usize, batching: Batching) -> WindowOptions {
    WindowOptions { sequence_length: sequence, vocab_size: None, split: Split::All, batching }
}

fn numbers(literal: &Literal) -> Vec<i32> {
    literal.bytes().chunks_exact(4).map(|bytes| i32::from_le_bytes(bytes.try_into().unwrap())).collect()
}

fn write_tokens(path: &Path, tokens: impl Iterator<Item = u16>) -> PathBuf {
    fs::write(path, tokens.flat_map(u16::to_le_bytes).collect::<Vec<u8>>()).unwrap();
    path.to_path_buf()
}

/// An array file as NumPy writes it.
fn npy(descr: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    header.push_str(&" ".repeat((10 + header.len() + 1).next_multiple_of(64) - 11 - header.len()));
    header.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    bytes
}

/// Writes a PNG image of pixels by their column and row.
fn save_image(path: &Path, width: u32, height: u32, colour: impl Fn(u32, u32) -> [u8; 3]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut encoder = png::Encoder::new(fs::File::create(path).unwrap(), width, height);
    encoder.set_color(png::ColorType::Rgb);
    let pixels: Vec<u8> = (0..width * height).flat_map(|n| colour(n % width, n / width)).collect();
    encoder.write_header().unwrap().write_image_data(&pixels).unwrap();
}

/// Files that were made with the `image` crate, and what it decodes them to.
fn image_data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/images")
}

/// Three classes of ten small images each, PNG and JPEG.
fn image_folder(folder: &Path) {
    for (class, colour) in [("ash", [200, 10, 10]), ("birch", [10, 200, 10]), ("cedar", [10, 10, 200])] {
        for n in 0..10 {
            let file = folder.join(class).join(n.to_string());
            if n % 2 == 0 {
                save_image(&file.with_extension("png"), 12 + n, 20, |_, _| colour);
            } else {
                fs::copy(image_data().join(class).with_extension("jpg"), file.with_extension("jpg")).unwrap();
            }
        }
    }
    fs::write(folder.join("ash/notes.txt"), "not an image").unwrap();
    fs::create_dir(folder.join(".hidden")).unwrap();
}

/// Opens a dataset with a batching.
type Open = Box<dyn Fn(Batching) -> Box<dyn Dataset>>;

/// Every kind of dataset, by name.
fn every_kind(folder: &Path) -> Vec<(&'static str, Open)> {
    let bin = write_tokens(&folder.join("a.bin"), 0..1000);
    let array = folder.join("b.npy");
    fs::write(&array, npy("<i8", "(500,)", &(1000..1500i64).flat_map(i64::to_le_bytes).collect::<Vec<_>>())).unwrap();
    let text = folder.join("text.txt");
    fs::write(&text, stories(1, 20_000)).unwrap();
    let images = folder.join("images");
    image_folder(&images);
    let cache = folder.join("cache");
    vec![
        (
            "tokens",
            Box::new(move |batching| {
                let files = [bin.clone(), array.clone()];
                Box::new(TokenDataset::open(&files, TokenWidth::U16, windows(7, batching)).unwrap())
            }),
        ),
        (
            "text",
            Box::new(move |batching| {
                let options = TextOptions { tokenizer: Tokenizer::bytes(), separator: None, cache: cache.clone() };
                let split = Split::Train { validation_fraction: 0.1 };
                let windows = WindowOptions { split, ..windows(64, batching) };
                Box::new(TokenDataset::from_text(std::slice::from_ref(&text), &options, windows).unwrap())
            }),
        ),
        (
            "chain",
            Box::new(|batching| {
                let options = MarkovOptions { vocab_size: 50, sequence_length: 16, chain_seed: 1, batching };
                Box::new(MarkovTokens::new(options).unwrap())
            }),
        ),
        (
            "shapes",
            Box::new(|batching| {
                let options = ShapeOptions { height: 16, width: 12, channels: 3, classes: 8, batching };
                Box::new(ShapeImages::new(options).unwrap())
            }),
        ),
        (
            "images",
            Box::new(move |batching| Box::new(ImageFolder::open(&images, ImageOptions::new(8, 10, batching)).unwrap())),
        ),
    ]
}

#[test]
fn batches_depend_on_seed_and_step_alone() {
    let folder = tempfile::tempdir().unwrap();
    for (kind, open) in every_kind(folder.path()) {
        let dataset = open(Batching::new(6, 42));
        // In order, then from a fresh dataset at once and backwards: what a resumed run does.
        let batches: Vec<_> = (0..9).map(|step| dataset.batch(step).unwrap()).collect();
        let resumed = open(Batching::new(6, 42));
        for step in (0..9).rev() {
            assert_eq!(resumed.batch(step).unwrap(), batches[step as usize], "{kind} at step {step}");
        }
        assert_eq!(resumed.describe(), dataset.describe());
        for batch in &batches {
            let specs: Vec<Spec> = batch.iter().map(|array| Spec::new(array.dtype(), array.dims())).collect();
            assert_eq!(specs, dataset.specs(), "{kind}");
        }
        assert_eq!(batches.iter().map(|batch| batch[0].bytes()).collect::<BTreeSet<_>>().len(), 9, "{kind} repeats");
        let other = open(Batching::new(6, 43));
        assert_ne!(other.batch(0).unwrap(), batches[0], "{kind} does not depend on its seed");
        assert_ne!(other.describe(), dataset.describe(), "{kind}");
        dataset.batch(u64::MAX).unwrap();
    }
}

#[test]
fn batches_are_the_same_on_every_machine_and_release() {
    use sha2::Digest as _;
    let folder = tempfile::tempdir().unwrap();
    let found: Vec<_> = every_kind(folder.path())
        .into_iter()
        // Decoders of images may change; what they decode is chosen like the rest.
        .filter(|(kind, _)| *kind != "images")
        .map(|(kind, open)| {
            let batch = open(Batching::new(6, 42)).batch(1000).unwrap();
            let hash = sha2::Sha256::digest(batch.iter().flat_map(|array| array.bytes().to_vec()).collect::<Vec<_>>());
            (kind, format!("{hash:x}")[..16].to_string())
        })
        .collect();
    let expected = [
        ("tokens", "ed8ac05fd3cfab2b"),
        ("text", "56fcfbc789cdcef7"),
        ("chain", "b9e93e3158012233"),
        ("shapes", "aba9c338f475cb4a"),
    ];
    assert_eq!(found, expected.map(|(kind, hash)| (kind, hash.to_string())));
}

#[test]
fn shards_are_the_rows_of_the_whole_batch() {
    let folder = tempfile::tempdir().unwrap();
    for (kind, open) in every_kind(folder.path()) {
        let whole = open(Batching::new(6, 1));
        for count in [2, 3, 6] {
            let shards: Vec<_> = (0..count).map(|index| open(Batching::new(6, 1).shard(index, count))).collect();
            for step in [0, 1, 5] {
                let parts: Vec<_> = shards.iter().map(|shard| shard.batch(step).unwrap()).collect();
                for (n, array) in whole.batch(step).unwrap().into_iter().enumerate() {
                    let joined: Vec<u8> = parts.iter().flat_map(|part| part[n].bytes().to_vec()).collect();
                    assert_eq!(joined, array.bytes(), "{kind}, {count} shards, step {step}");
                }
            }
            assert_eq!(shards[0].batches_per_epoch(), whole.batches_per_epoch());
        }
    }
}

#[test]
fn an_epoch_of_tokens_has_every_window_once() {
    let folder = tempfile::tempdir().unwrap();
    // 71 tokens have seven windows of ten and the one after; 35 have three; 10 have none.
    let files = [
        write_tokens(&folder.path().join("a.bin"), 0..71),
        write_tokens(&folder.path().join("b.bin"), 100..135),
        write_tokens(&folder.path().join("c.bin"), 200..210),
    ];
    let dataset = TokenDataset::open(&files, TokenWidth::U16, windows(10, Batching::new(2, 3))).unwrap();
    assert_eq!((dataset.tokens(), dataset.batches_per_epoch()), (116, Some(5)));
    let expected: Vec<i32> = (0..7).map(|w| w * 10).chain((0..3).map(|w| 100 + w * 10)).collect();
    let mut orders = BTreeSet::new();
    for epoch in 0..4 {
        let mut firsts = Vec::new();
        for step in epoch * 5..epoch * 5 + 5 {
            assert_eq!(dataset.epoch(step), epoch);
            let batch = dataset.batch(step).unwrap();
            for (inputs, targets) in numbers(&batch[0]).chunks(10).zip(numbers(&batch[1]).chunks(10)) {
                assert!(inputs.iter().copied().eq(inputs[0]..inputs[0] + 10));
                assert!(targets.iter().copied().eq(inputs[0] + 1..inputs[0] + 11));
                firsts.push(inputs[0]);
            }
        }
        orders.insert(firsts.clone());
        firsts.sort_unstable();
        assert_eq!(firsts, expected);
    }
    assert_eq!(orders.len(), 4, "epochs in the same order");
}

#[test]
fn validation_is_kept_apart() {
    let folder = tempfile::tempdir().unwrap();
    let file = write_tokens(&folder.path().join("a.bin"), 0..1001);
    let seen = |split| {
        let options = WindowOptions { split, ..windows(10, Batching::new(1, 3)) };
        let dataset = TokenDataset::open(std::slice::from_ref(&file), TokenWidth::U16, options).unwrap();
        let steps = dataset.batches_per_epoch().unwrap();
        (0..steps).map(|step| numbers(&dataset.batch(step).unwrap()[0])[0]).collect::<BTreeSet<_>>()
    };
    let train = seen(Split::Train { validation_fraction: 0.25 });
    let validation = seen(Split::Validation { validation_fraction: 0.25 });
    assert_eq!((train.len(), validation.len()), (75, 25));
    assert!(train.is_disjoint(&validation));
    assert!(train.iter().chain(&validation).copied().eq((0..100).map(|w| w * 10)));
}

#[test]
fn validation_images_do_not_depend_on_the_seed() {
    let folder = tempfile::tempdir().unwrap();
    for n in 0..20u8 {
        save_image(&folder.path().join(format!("class{}/{n}.png", n / 10)), 4, 4, |_, _| [n * 10; 3]);
    }
    let seen = |split, seed| {
        let options = ImageOptions { split, channels: 1, ..ImageOptions::new(1, 1, Batching::new(1, seed)) };
        let dataset = ImageFolder::open(folder.path(), options).unwrap();
        let steps = dataset.batches_per_epoch().unwrap();
        (0..steps).map(|step| dataset.batch(step).unwrap()[0].bytes().to_vec()).collect::<BTreeSet<_>>()
    };
    let held = seen(Split::Validation { validation_fraction: 0.3 }, 1);
    assert_eq!(held, seen(Split::Validation { validation_fraction: 0.3 }, 2));
    let train = seen(Split::Train { validation_fraction: 0.3 }, 1);
    assert_eq!((held.len(), train.len()), (6, 14));
    assert!(held.is_disjoint(&train));
}

#[test]
fn tokens_of_every_width_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokens.npy");
    let check = |descr: &str, data: Vec<u8>| {
        fs::write(&path, npy(descr, "(5,)", &data)).unwrap();
        let options = windows(4, Batching::new(1, 0));
        let dataset = TokenDataset::open(std::slice::from_ref(&path), TokenWidth::U32, options).unwrap();
        let batch = dataset.batch(0).unwrap();
        assert_eq!((numbers(&batch[0]), numbers(&batch[1])), (vec![1, 2, 3, 4], vec![2, 3, 4, 127]), "{descr}");
    };
    let tokens = [1u8, 2, 3, 4, 127];
    check("|u1", tokens.to_vec());
    check("|i1", tokens.to_vec());
    check("<u2", tokens.iter().flat_map(|&t| u16::from(t).to_le_bytes()).collect());
    check("<i2", tokens.iter().flat_map(|&t| i16::from(t).to_le_bytes()).collect());
    check("<u4", tokens.iter().flat_map(|&t| u32::from(t).to_le_bytes()).collect());
    check("<i4", tokens.iter().flat_map(|&t| i32::from(t).to_le_bytes()).collect());
    check("<u8", tokens.iter().flat_map(|&t| u64::from(t).to_le_bytes()).collect());
    check("<i8", tokens.iter().flat_map(|&t| i64::from(t).to_le_bytes()).collect());
}

/// Opens a file of tokens and reads its first batch.
fn first_batch(path: &Path, vocabulary: Option<u32>) -> Result<Vec<Literal>, DataError> {
    let options = WindowOptions { vocab_size: vocabulary, ..windows(4, Batching::new(1, 0)) };
    TokenDataset::open(&[path.to_path_buf()], TokenWidth::U32, options)?.batch(0)
}

#[test]
fn bad_token_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let check = |name: &str, bytes: &[u8], expected: &str| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        let error = first_batch(&path, Some(100)).unwrap_err();
        let (text, remedy) = (error.to_string(), error.remedy());
        assert!(text.contains(expected) && text.contains(name) && !remedy.is_empty(), "{name}: {text}");
    };
    check("odd.bin", &[0; 21], "21 bytes are no whole number of tokens of 4 bytes");
    check("empty.bin", &[], "there are 0, 1 are needed");
    check("short.bin", &[0; 16], "there are 0, 1 are needed");
    check("large.bin", &[0, 0, 0, 0, 100, 0, 0, 0].repeat(5), "is 100; it must be from 0 to below 100");
    check("empty.npy", &[], "too short");
    check("text.npy", b"hello, world", "not a NumPy array");
    check("floats.npy", &npy("<f4", "(5,)", &[0; 20]), "tokens are integers");
    check("swapped.npy", &npy(">i4", "(5,)", &[0; 20]), "not known");
    check("matrix.npy", &npy("<i4", "(5, 1)", &[0; 20]), "2 dimensions");
    check("scalar.npy", &npy("<i4", "()", &[0; 4]), "0 dimensions");
    check("truncated.npy", &npy("<i4", "(6,)", &[0; 20]), "too short for them");
    check("huge.npy", &npy("<i8", "(18446744073709551615,)", &[0; 20]), "too short for them");
    check("negative.npy", &npy("<i4", "(5,)", &[255; 20]), "is -1");
    let whole = npy("<i4", "(50,)", &[1; 200]);
    for cut in 0..whole.len() {
        fs::write(folder.path().join("cut.npy"), &whole[..cut]).unwrap();
        assert!(first_batch(&folder.path().join("cut.npy"), None).is_err(), "{cut} bytes");
    }
    let absent = first_batch(&folder.path().join("absent.bin"), None).unwrap_err();
    assert!(absent.to_string().contains("absent.bin") && std::error::Error::source(&absent).is_some());
    assert_eq!(absent.remedy(), "check the path");
    assert!(first_batch(folder.path(), None).is_err());
    assert!(TokenDataset::open(&[], TokenWidth::U16, windows(4, Batching::new(1, 0))).is_err());
    let file = write_tokens(&folder.path().join("a.bin"), 0..100);
    let refused = |sequence, batching| {
        TokenDataset::open(std::slice::from_ref(&file), TokenWidth::U16, windows(sequence, batching)).unwrap_err()
    };
    refused(0, Batching::new(1, 0));
    refused(usize::MAX, Batching::new(1, 0));
    refused(usize::MAX / 8, Batching::new(1, 0));
    refused(4, Batching::new(usize::MAX, 0));
    refused(4, Batching::new(25, 0));
    refused(4, Batching::new(4, 0).shard(1, 3));
}

#[test]
fn a_file_cut_off_while_it_is_used_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = write_tokens(&folder.path().join("a.bin"), 0..50_000);
    let dataset =
        TokenDataset::open(std::slice::from_ref(&path), TokenWidth::U16, windows(10, Batching::new(1, 0))).unwrap();
    dataset.batch(0).unwrap();
    fs::File::options().write(true).open(&path).unwrap().set_len(100).unwrap();
    assert!(matches!(dataset.batch(0), Err(DataError::Shrunk { .. })));
}

/// A tokenizer of a few words, as Hugging Face's library writes it.
fn word_tokenizer(folder: &Path) -> PathBuf {
    let path = folder.join("tokenizer.json");
    let json = r#"{"version": "1.0", "truncation": {"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0},
      "padding": null, "normalizer": {"type": "Lowercase"}, "pre_tokenizer": {"type": "Whitespace"}, "post_processor": null,
      "decoder": null, "added_tokens": [{"id": 5, "content": "<end>", "single_word": false, "lstrip": false, "rstrip": false,
      "normalized": false, "special": true}],
      "model": {"type": "WordLevel", "unk_token": "?", "vocab": {"?": 0, "the": 1, "fox": 2, "runs": 3, ".": 4}}}"#;
    fs::write(&path, json).unwrap();
    path
}

#[test]
fn text_is_tokenized_once() {
    let folder = tempfile::tempdir().unwrap();
    let tokenizer = Tokenizer::open(&word_tokenizer(folder.path())).unwrap();
    assert_eq!(tokenizer.vocab_size(), 6);
    let (a, b) = (folder.path().join("a.txt"), folder.path().join("b.txt"));
    fs::write(&a, "The fox runs. The fox!").unwrap();
    fs::write(&b, "the the").unwrap();
    let cache = folder.path().join("cache");
    let options = TextOptions { tokenizer, separator: Some("<end>".into()), cache: cache.clone() };
    let files = [a.as_path().into(), b.as_path().into()];
    let first = tokenize_files(&files, &options).unwrap();
    assert!(!first.was_cached);
    // More than the three tokens to which the tokenizer would cut a text.
    let expected = [1u16, 2, 3, 4, 1, 2, 0, 5, 1, 1, 5];
    assert_eq!(
        fs::read(&first.path).unwrap(),
        expected.iter().flat_map(|token| token.to_le_bytes()).collect::<Vec<_>>()
    );
    assert_eq!((first.tokens, first.width), (11, TokenWidth::U16));
    let again = tokenize_files(&files, &options).unwrap();
    assert!(again.was_cached && again.path == first.path);

    // Other contents, another separator and another tokenizer have other tokens.
    let plain = TextOptions { separator: None, ..options.clone() };
    assert_ne!(tokenize_files(&files, &plain).unwrap().path, first.path);
    let bytes = TextOptions { tokenizer: Tokenizer::bytes(), separator: None, cache: cache.clone() };
    assert_ne!(tokenize_files(&files, &bytes).unwrap().path, tokenize_files(&files, &plain).unwrap().path);
    fs::write(&a, "The fox runs. The fox?").unwrap();
    assert!(!tokenize_files(&files, &options).unwrap().was_cached);

    // What is damaged is made again.
    fs::write(&a, "The fox runs. The fox!").unwrap();
    for damage in [&b"xyz"[..], b""] {
        fs::write(&first.path, damage).unwrap();
        let mended = tokenize_files(&files, &options).unwrap();
        assert!(!mended.was_cached && fs::metadata(&mended.path).unwrap().len() == 22);
    }
    fs::write(first.path.with_extension("json"), "{}").unwrap();
    assert!(!tokenize_files(&files, &options).unwrap().was_cached);
    assert!(tokenize_files(&files, &options).unwrap().was_cached);
}

#[test]
fn tokenizers_lead_back_to_the_text() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = Tokenizer::bytes();
    let text = "Übung macht den Meister.\n";
    assert_eq!(bytes.decode(&bytes.encode(text).unwrap()).unwrap(), text);
    assert_eq!(bytes.decode(&[0xc3]).unwrap(), "\u{fffd}");
    assert!(bytes.decode(&[256]).is_err());
    let words = Tokenizer::open(&word_tokenizer(folder.path())).unwrap();
    assert_eq!(words.decode(&words.encode("the fox runs").unwrap()).unwrap(), "the fox runs");
    assert_eq!((words.token("<end>"), words.token("<begin>"), bytes.token("<end>")), (Some(5), None, None));
}

#[test]
fn bad_texts_and_tokenizers_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let words = Tokenizer::open(&word_tokenizer(folder.path())).unwrap();
    assert!(check_vocab_size(&words, 6).is_ok());
    let error = check_vocab_size(&words, 5).unwrap_err();
    assert!(error.to_string().contains("tokenizer.json has 6 tokens, the model's vocabulary only 5"), "{error}");

    let text = folder.path().join("text.txt");
    let open = |tokenizer: &Tokenizer, vocabulary, separator: Option<&str>| {
        let cache = folder.path().join("cache");
        let options = TextOptions { tokenizer: tokenizer.clone(), separator: separator.map(String::from), cache };
        let windows = WindowOptions { vocab_size: vocabulary, ..windows(16, Batching::new(2, 0)) };
        TokenDataset::from_text(std::slice::from_ref(&text), &options, windows).map(drop)
    };
    fs::write(&text, "too short").unwrap();
    let error = open(&Tokenizer::bytes(), None, None).unwrap_err();
    assert!(matches!(error, DataError::TooSmall { found: 0, needed: 2, .. }));
    assert!(error.to_string().contains("text.txt"), "{error}");
    assert!(matches!(open(&words, Some(5), None), Err(DataError::Vocabulary { tokens: 6, model: 5, .. })));
    assert!(matches!(open(&words, None, Some("<none>")), Err(DataError::Options(_))));
    fs::write(&text, b"caf\xe9 is Latin-1").unwrap();
    for tokenizer in [&words, &Tokenizer::bytes()] {
        let error = open(tokenizer, None, None).unwrap_err();
        assert!(matches!(error, DataError::Utf8 { offset_bytes: 3, .. }), "{error:?}");
        assert!(error.to_string().contains("byte 3"));
    }
    fs::remove_file(&text).unwrap();
    assert!(matches!(open(&words, None, None), Err(DataError::Io { .. })));

    let path = folder.path().join("bad.json");
    let full = fs::read(word_tokenizer(folder.path())).unwrap();
    for bad in [&b""[..], b"{}", b"[1]", b"\xff", &full[..full.len() / 2], &full[..full.len() - 1]] {
        fs::write(&path, bad).unwrap();
        let error = Tokenizer::open(&path).unwrap_err();
        assert!(error.to_string().contains("bad.json") && std::error::Error::source(&error).is_some(), "{error}");
    }
    assert!(matches!(Tokenizer::open(&folder.path().join("none.json")), Err(DataError::Io { .. })));
}

#[test]
fn a_chain_can_be_learned() {
    let batching = Batching::new(64, 5);
    let options = MarkovOptions { vocab_size: 40, sequence_length: 128, chain_seed: 9, batching };
    let count = |dataset: &MarkovTokens, step| {
        let batch = dataset.batch(step).unwrap();
        let pairs = numbers(&batch[0]).into_iter().zip(numbers(&batch[1]));
        let mut counts = vec![[0.0f64; 40]; 40];
        pairs.for_each(|(from, to)| counts[from as usize][to as usize] += 1.0);
        counts
    };
    let counts = count(&MarkovTokens::new(options).unwrap(), 0);
    let total: f64 = counts.iter().flatten().sum();
    // The entropy of the next token, from what was counted, is that of the chain.
    let entropy = counts.iter().flat_map(|row| {
        let sum: f64 = row.iter().sum();
        row.iter().filter(|count| **count > 0.0).map(move |count| -count * (count / sum).ln())
    });
    let entropy = entropy.sum::<f64>() / total;
    assert!((entropy - MarkovTokens::LOWEST_LOSS).abs() < 0.05, "{entropy}");
    assert!(counts.iter().all(|row| row.iter().filter(|count| **count > 0.0).count() <= 4));
    // Another seed gives other tokens of the same chain.
    let other = count(&MarkovTokens::new(MarkovOptions { batching: Batching::new(64, 6), ..options }).unwrap(), 0);
    assert_ne!(other, counts);
    for (row, other) in counts.iter().zip(&other) {
        let next = |row: &[f64; 40]| {
            row.iter().enumerate().filter(|(_, n)| **n > 0.0).map(|(to, _)| to).collect::<BTreeSet<_>>()
        };
        assert!(next(row).union(&next(other)).count() <= 4);
    }
    assert!(MarkovTokens::new(MarkovOptions { vocab_size: 3, ..options }).is_err());
    assert!(MarkovTokens::new(MarkovOptions { sequence_length: 0, ..options }).is_err());
    assert!(MarkovTokens::new(MarkovOptions { sequence_length: usize::MAX, ..options }).is_err());
}

#[test]
fn shapes_are_seen() {
    let batching = Batching::new(256, 5);
    let options = ShapeOptions { height: 16, width: 16, channels: 1, classes: 8, batching };
    let batch = ShapeImages::new(options).unwrap().batch(0).unwrap();
    let labels = numbers(&batch[1]);
    assert_eq!(labels.iter().copied().collect::<BTreeSet<_>>(), (0..8).collect());
    let pixels = batch[0].bytes().chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()));
    let pixels: Vec<f32> = pixels.collect();
    assert!(pixels.iter().all(|value| value.abs() <= 1.0));
    // Between the darkest and the brightest pixel of every image is what separates shape and background.
    for image in pixels.chunks(256) {
        let (low, high) =
            image.iter().fold((1.0f32, -1.0f32), |(low, high), value| (low.min(*value), high.max(*value)));
        assert!(high - low > 0.5, "{low} {high}");
    }
    for wrong in [
        ShapeOptions { channels: 2, ..options },
        ShapeOptions { classes: 9, ..options },
        ShapeOptions { classes: 1, ..options },
        ShapeOptions { height: 0, ..options },
        ShapeOptions { height: usize::MAX, ..options },
    ] {
        assert!(ShapeImages::new(wrong).is_err(), "{wrong:?}");
    }
}

#[test]
fn images_are_decoded_and_labelled() {
    let folder = tempfile::tempdir().unwrap();
    image_folder(folder.path());
    let dataset = ImageFolder::open(folder.path(), ImageOptions::new(8, 10, Batching::new(30, 0))).unwrap();
    assert_eq!(dataset.classes(), ["ash", "birch", "cedar"]);
    assert_eq!(dataset.specs(), [Spec::new(DType::F32, [30, 8, 10, 3]), Spec::new(DType::I32, [30])]);
    let batch = dataset.batch(0).unwrap();
    let labels = numbers(&batch[1]);
    assert_eq!((0..3).map(|class| labels.iter().filter(|label| **label == class).count()).collect::<Vec<_>>(), [10; 3]);
    // The channel of its class is bright in every image; JPEG changes colours a little.
    for (image, label) in batch[0].bytes().chunks(8 * 10 * 3 * 4).zip(labels) {
        for pixel in image.chunks(12) {
            for (channel, bytes) in pixel.chunks(4).enumerate() {
                let value = f32::from_le_bytes(bytes.try_into().unwrap());
                let expected = (if channel as i32 == label { 200.0 } else { 10.0 }) / 127.5 - 1.0;
                assert!((value - expected).abs() < 0.08, "channel {channel} of class {label}: {value}");
            }
        }
    }
    // The number of threads changes nothing.
    let options = ImageOptions { threads: 7, ..ImageOptions::new(8, 10, Batching::new(30, 0)) };
    assert_eq!(ImageFolder::open(folder.path(), options).unwrap().batch(0).unwrap(), batch);
}

#[test]
fn images_are_cropped_or_stretched() {
    let folder = tempfile::tempdir().unwrap();
    // Black but for a white left quarter.
    save_image(&folder.path().join("one/a.png"), 8, 4, |column, _| [if column < 2 { 255 } else { 0 }; 3]);
    let whites = |fit| {
        let options = ImageOptions { fit, channels: 1, ..ImageOptions::new(4, 4, Batching::new(1, 0)) };
        let batch = ImageFolder::open(folder.path(), options).unwrap().batch(0).unwrap();
        batch[0].bytes().chunks(4).filter(|bytes| f32::from_le_bytes((*bytes).try_into().unwrap()) > 0.0).count()
    };
    assert_eq!((whites(ImageFit::Crop), whites(ImageFit::Stretch)), (0, 4));
}

/// Every line of `expected.txt` is a file in a size: JPEG in colour and grey, PNG of 16 bits, with a palette, and grey.
#[test]
fn images_are_decoded_and_scaled_to_the_bytes_of_the_image_crate() {
    let expected = fs::read_to_string(image_data().join("expected.txt")).unwrap();
    let cases: Vec<&str> = expected.lines().filter(|line| !line.starts_with('#')).collect();
    assert!(cases.len() > 30);
    for case in cases {
        let [file, fit, height, width, channels, bytes] = case.split(' ').collect::<Vec<_>>().try_into().unwrap();
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("class")).unwrap();
        fs::copy(image_data().join(file), folder.path().join("class").join(file)).unwrap();
        let fit = if fit == "crop" { ImageFit::Crop } else { ImageFit::Stretch };
        let size = ImageOptions::new(height.parse().unwrap(), width.parse().unwrap(), Batching::new(1, 0));
        let scale = ImageOptions { mean: [0.0; 3], deviation: [1.0; 3], channels: channels.parse().unwrap(), ..size };
        let batch = ImageFolder::open(folder.path(), ImageOptions { fit, ..scale }).unwrap().batch(0).unwrap();
        let pixels = batch[0].bytes().chunks(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()) * 255.0);
        let found: String = pixels.map(|pixel| format!("{:02x}", pixel.round() as u8)).collect();
        assert_eq!(found, bytes, "{case}");
    }
}

/// CRC-32 as PNG has it.
fn png_checksum(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |checksum, byte| {
        (0..8).fold(checksum ^ u32::from(*byte), |bits, _| (bits >> 1) ^ (0xedb8_8320 * (bits & 1)))
    })
}

#[test]
fn bad_images_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let open = || ImageFolder::open(folder.path(), ImageOptions::new(8, 8, Batching::new(1, 0)));
    assert!(open().unwrap_err().to_string().contains("no folders of images"));
    fs::create_dir(folder.path().join("class")).unwrap();
    assert!(open().unwrap_err().to_string().contains("class cannot be read: it has no PNG or JPEG images"));
    let absent = ImageFolder::open(&folder.path().join("none"), ImageOptions::new(8, 8, Batching::new(1, 0)));
    assert!(matches!(absent, Err(DataError::Io { .. })));

    let path = folder.path().join("class/damaged.png");
    save_image(&path, 16, 16, |_, _| [1, 2, 3]);
    let whole = fs::read(&path).unwrap();
    let refused = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        let error = open().unwrap().batch(0).unwrap_err();
        assert!(error.to_string().contains("damaged.png") && std::error::Error::source(&error).is_some(), "{error}");
    };
    refused(&[]);
    refused(b"GIF89a");
    refused(&whole[..whole.len() / 2]);
    // Images of more pixels than are decoded, in a few bytes: by their sides, and by their size.
    for (width, height) in [(1 << 30, 1), (20_000u32, 20_000u32)] {
        let mut large = whole.clone();
        large[16..20].copy_from_slice(&width.to_be_bytes());
        large[20..24].copy_from_slice(&height.to_be_bytes());
        let checksum = png_checksum(&large[12..29]);
        large[29..33].copy_from_slice(&checksum.to_be_bytes());
        refused(&large);
        let Err(DataError::Image { source, .. }) = open().unwrap().batch(0) else { panic!("{width}x{height}") };
        assert!(source.to_string().contains("at most 32768 a side"), "{source}");
    }
    let jpeg = fs::read(image_data().join("ash.jpg")).unwrap();
    refused(&jpeg[..jpeg.len() / 3]);
    // Height and width stand behind the marker of the frame, its length and its depth.
    let frame = jpeg.windows(2).position(|marker| marker == [0xff, 0xc0]).unwrap();
    for size in [[0xff; 4], [0x7f, 0xff, 0x7f, 0xff], [0; 4]] {
        let mut large = jpeg.clone();
        large[frame + 5..frame + 9].copy_from_slice(&size);
        refused(&large);
    }
    let options = ImageOptions::new(8, 8, Batching::new(1, 0));
    for wrong in [
        ImageOptions { height: 0, ..options },
        ImageOptions { width: usize::MAX, ..options },
        ImageOptions { channels: 4, ..options },
        ImageOptions { deviation: [0.0; 3], ..options },
        ImageOptions { batching: Batching::new(2, 0), ..options },
    ] {
        assert!(ImageFolder::open(folder.path(), wrong).is_err(), "{wrong:?}");
    }
}

/// Counts how many batches were made; fails or panics at a step.
struct Watched {
    made: AtomicU64,
    started: mpsc::Sender<u64>,
    fails_at: u64,
    panics_at: u64,
}

impl Dataset for Watched {
    fn specs(&self) -> Vec<Spec> {
        vec![Spec::new(DType::U8, [])]
    }

    fn batches_per_epoch(&self) -> Option<u64> {
        None
    }

    fn batch(&self, step: u64) -> Result<Vec<Literal>, DataError> {
        self.made.fetch_add(1, Ordering::SeqCst);
        let _ = self.started.send(step);
        assert_ne!(step, self.panics_at, "asked to");
        if step == self.fails_at {
            return Err(DataError::Options("asked to".into()));
        }
        Ok(vec![Literal::new(DType::U8, [], vec![step as u8]).unwrap()])
    }

    fn describe(&self) -> String {
        "watched".into()
    }
}

fn watched(fails_at: u64, panics_at: u64) -> (Arc<Watched>, mpsc::Receiver<u64>) {
    let (started, steps) = mpsc::channel();
    (Arc::new(Watched { made: AtomicU64::new(0), started, fails_at, panics_at }), steps)
}

#[test]
fn a_loader_hands_on_batches_errors_and_panics() {
    for workers in [1, 2, 4, 20] {
        let options = |ahead: usize| LoaderOptions { ahead, workers };
        let (dataset, _steps) = watched(u64::MAX, u64::MAX);
        let loader = Loader::start(dataset, 5..12, options(3)).unwrap();
        let steps: Vec<u64> = loader.map(|batch| batch.unwrap().step).collect();
        assert!(steps.iter().copied().eq(5..12), "{workers} workers: {steps:?}");
        for (fails_at, panics_at) in [(7, u64::MAX), (u64::MAX, 7)] {
            let (dataset, _steps) = watched(fails_at, panics_at);
            let mut loader = Loader::start(dataset, 5..12, options(2)).unwrap();
            assert_eq!((loader.next().unwrap().unwrap().step, loader.next().unwrap().unwrap().step), (5, 6));
            let error = loader.next().unwrap().unwrap_err();
            assert!(matches!(error, DataError::Options(_) | DataError::Panicked { .. }), "{error:?}");
            assert!(loader.next().is_none() && loader.next().is_none());
        }
    }
}

#[test]
fn the_number_of_workers_changes_no_batch() {
    let chain = MarkovOptions { vocab_size: 64, sequence_length: 16, chain_seed: 1, batching: Batching::new(8, 2) };
    let batches = |workers: usize| -> Vec<_> {
        let dataset = Arc::new(MarkovTokens::new(chain).unwrap());
        let loader = Loader::start(dataset, 3..40, LoaderOptions { ahead: 5, workers }).unwrap();
        loader.map(|batch| batch.unwrap()).collect()
    };
    let alone = batches(1);
    assert!(alone.iter().map(|batch| batch.step).eq(3..40));
    assert_eq!(batches(4), alone);
}

#[test]
fn a_loader_stays_within_its_bound() {
    // Every worker is at least one batch ahead.
    for (ahead, workers, bound) in [(2, 1, 2), (8, 4, 8), (1, 3, 3)] {
        let (dataset, _steps) = watched(u64::MAX, u64::MAX);
        let loader = Loader::start(dataset.clone(), 0..5000, LoaderOptions { ahead, workers }).unwrap();
        for (taken, batch) in (1..).zip(loader) {
            batch.unwrap();
            assert!(dataset.made.load(Ordering::SeqCst) <= taken + bound, "{workers} workers");
        }
    }
}

#[test]
fn a_loader_ends_when_it_is_dropped() {
    for (ahead, workers) in [(0, 1), (1, 1), (3, 1), (6, 3), (0, 2)] {
        let (dataset, steps) = watched(u64::MAX, u64::MAX);
        let loader = Loader::start(dataset.clone(), 0..u64::MAX, LoaderOptions { ahead, workers }).unwrap();
        // It stands still with all of them prepared and nobody asking; dropping it must wake and end it.
        let all = ahead.max(workers);
        for _ in 0..all {
            steps.recv().unwrap();
        }
        drop(loader);
        // The threads have ended, so they hold the dataset no more.
        assert_eq!(Arc::strong_count(&dataset), 1);
        assert!(dataset.made.load(Ordering::SeqCst) <= all as u64, "more than {all} ahead");
    }
}

#[test]
fn the_stories_that_ship_are_the_ones_that_are_made() {
    let shipped = fs::read(testkit::repository().join("examples/text/stories.txt")).unwrap();
    let made = stories(STORIES_SEED, STORIES_BYTES);
    assert!(made.as_bytes() == shipped, "cargo run -p tpubridge-runtime --example stories > examples/text/stories.txt");
    assert!((STORIES_BYTES..STORIES_BYTES + 10_000).contains(&shipped.len()));
}

#[test]
fn augmented_images_move_and_turn_as_seed_and_step_say() {
    let folder = tempfile::tempdir().unwrap();
    // Every pixel has a brightness of its own.
    save_image(&folder.path().join("one/a.png"), 6, 6, |x, y| [(40 + 6 * y + x) as u8; 3]);
    let open = |augment: Augment, seed: u64| {
        let options = ImageOptions { channels: 1, augment, ..ImageOptions::new(6, 6, Batching::new(1, seed)) };
        ImageFolder::open(folder.path(), options).unwrap()
    };
    let pixels = |dataset: &ImageFolder, step: u64| -> Vec<u8> {
        let batch = dataset.batch(step).unwrap();
        let numbers = batch[0].bytes().chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()));
        numbers.map(|number| ((number * 0.5 + 0.5) * 255.0).round() as u8).collect()
    };
    let plain = open(Augment::default(), 3);
    let whole: Vec<u8> = (0..36).map(|n| 40 + n as u8).collect();
    assert_eq!(pixels(&plain, 0), whole);
    let augment = Augment { crop_padding: 2, flip: Flip::Horizontal };
    let changed = open(augment, 3);
    let seen: Vec<Vec<u8>> = (0..40).map(|step| pixels(&changed, step)).collect();
    for image in &seen {
        // Some move, mirrored or not, makes it, and black fills the rest.
        let is_move = |up: i32, left: i32, is_mirrored: bool| {
            (0..36).all(|n| {
                let (row, column) = (n / 6 + up, n % 6 + left);
                let column = if is_mirrored { 5 - column } else { column };
                let is_inside = (0..6).contains(&row) && (0..6).contains(&column);
                image[n as usize] == if is_inside { whole[(row * 6 + column) as usize] } else { 0 }
            })
        };
        let shifts = || (-2..=2).flat_map(|up| (-2..=2).map(move |left| (up, left)));
        assert!(shifts().any(|(up, left)| is_move(up, left, false) || is_move(up, left, true)), "{image:?}");
    }
    assert!(seen.iter().collect::<std::collections::BTreeSet<_>>().len() > 15);
    // The same again, another with another seed, and another name for what is read.
    assert_eq!(seen, (0..40).map(|step| pixels(&open(augment, 3), step)).collect::<Vec<_>>());
    assert_ne!(seen, (0..40).map(|step| pixels(&open(augment, 4), step)).collect::<Vec<_>>());
    assert_ne!(plain.describe(), changed.describe());
    let far = ImageOptions {
        augment: Augment { crop_padding: 1 << 20, ..Augment::default() },
        ..ImageOptions::new(6, 6, Batching::new(1, 0))
    };
    assert!(matches!(ImageFolder::open(folder.path(), far), Err(DataError::Options(_))));
}
