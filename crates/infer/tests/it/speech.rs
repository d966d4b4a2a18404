//! A Whisper writes what transformers' Whisper writes.

use infer::{SpeechOptions, SpeechTask, Transcriber, WavAudio};
use nn::hf::{self, Family};
use nn::models::{RunOptions, Whisper};
use serde::Deserialize;
use tensor::DType;
use trace::{Key, Tensor};
use weights::quant::QuantizedFolder;

use crate::harness::{cpu, peer};

#[derive(Deserialize)]
struct Chunk {
    tokens: Vec<u32>,
    language: String,
}

#[test]
fn speech_is_written_as_by_transformers() {
    let folder = tempfile::tempdir().unwrap();
    if peer("speech_is_written_as_by_transformers", "speech", folder.path()).is_none() {
        return;
    }
    let folder = folder.path();
    let chunks: Vec<Chunk> =
        serde_json::from_str(&std::fs::read_to_string(folder.join("answers.json")).unwrap()).unwrap();
    let mut transcriber = Transcriber::open(&cpu(), folder, &RunOptions::default()).unwrap();
    let audio = WavAudio::open(&folder.join("sound.wav")).unwrap();
    let mut write = |language: Option<&str>| {
        let options =
            SpeechOptions { language: language.map(String::from), max_tokens: Some(12), task: SpeechTask::Transcribe };
        transcriber.transcribe(&audio, &options, &mut |_| {})
    };
    let written = write(Some("de")).unwrap();
    assert_eq!(written.len(), 2);
    assert_eq!((written[1].start, written[1].end), (1.0, 1.75));
    for (written, chunk) in written.iter().zip(&chunks) {
        assert_eq!(written.tokens, chunk.tokens);
    }
    assert_eq!(write(None).unwrap()[0].language.as_deref(), Some(chunks[0].language.as_str()));
    assert!(write(Some("xx")).unwrap_err().to_string().contains("no language `xx`"));
    let fast = WavAudio { sample_rate: 44_100, ..audio };
    let refused = transcriber.transcribe(&fast, &SpeechOptions::default(), &mut |_| {}).unwrap_err();
    assert!(refused.to_string().contains("44100"));
    // What is saved is what was loaded, under the same names.
    let files = QuantizedFolder::open(folder).unwrap();
    let config = hf::read_whisper_config(files.config().unwrap()).unwrap();
    let key = || Key::from_seed(&Tensor::scalar(DType::U32, 0.0));
    let model = trace::shapes_of(&(), |()| Whisper::init(&key(), &config, &RunOptions::default())).unwrap();
    let params = hf::load(&files, Family::Whisper, &model).unwrap();
    let again = tempfile::tempdir().unwrap();
    hf::save(again.path(), Family::Whisper, &model, &params, u64::MAX).unwrap();
    let saved = QuantizedFolder::open(again.path()).unwrap();
    assert!(hf::load(&saved, Family::Whisper, &model).unwrap() == params);
    assert!(files.names().eq(saved.names()));
}
