//! A run's folder with a profile in it: what it shows is found, and one that cannot be read is told and left out.

use operate::diagnose::{DiagnoseSource, Diagnosis, IssueKind, diagnose};

use crate::made;

#[test]
fn the_profile_of_a_run_counts_and_a_damaged_one_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let profiles = folder.path().join("metrics/plugins/profile/steps-2-4");
    std::fs::create_dir_all(&profiles).unwrap();
    let record = "{\"version\":1,\"step\":5,\"loss\":3.0,\"step_seconds\":0.01}\n";
    std::fs::write(folder.path().join("metrics/metrics.jsonl"), record).unwrap();
    let found = |bytes: &[u8]| -> Diagnosis {
        std::fs::write(profiles.join("h.xplane.pb"), bytes).unwrap();
        diagnose(&DiagnoseSource::Folder(folder.path().to_path_buf())).unwrap()
    };
    let bytes = made::with_exposed_all_reduce();
    let diagnosis = found(&bytes);
    let [issue] = &diagnosis.issues[..] else { panic!("{}", diagnosis.text()) };
    assert_eq!(issue.kind, IssueKind::ExposedCollectives);
    assert!(issue.what.contains("most for all-reduce-done.1") && issue.share.unwrap() > 0.1, "{issue:?}");
    assert_eq!(diagnosis.notes, [""; 0]);

    for (damaged, part) in
        [(&bytes[..bytes.len() / 2], "is not a readable profile"), (&[0xff; 64][..], "not a readable")]
    {
        let diagnosis = found(damaged);
        assert_eq!(diagnosis.issues, []);
        assert!(diagnosis.notes[0].contains(part) && diagnosis.text().contains("note: "), "{}", diagnosis.text());
    }
    let file = std::fs::File::create(profiles.join("h.xplane.pb")).unwrap();
    file.set_len(1 << 30).unwrap();
    let diagnosis = diagnose(&DiagnoseSource::Folder(folder.path().to_path_buf())).unwrap();
    assert!(diagnosis.notes[0].contains("takes long to read"), "{}", diagnosis.text());
}
