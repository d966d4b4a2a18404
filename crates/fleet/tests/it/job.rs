//! Job files: those of the examples are right, they read back as they were written, and what is wrong is told with the nearest
//! right value.

use fleet::job::{JobCapacity, JobFile, JobPlatform, JobProgram};
use testkit::repository;

const GOOD: &str =
    "name = 'a'\nfolder = 'gs://b/a'\n[run]\ntrain = 't.toml'\n[slices]\ntype = 'v6e-8'\nzones = ['us-east5-b']\n";

#[test]
fn every_example_is_valid_and_writes_itself() {
    let folder = repository().join("examples/jobs");
    let mut seen = Vec::new();
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let job = JobFile::read(&path).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(JobFile::parse(&job.to_toml()).unwrap(), job, "{}", path.display());
        if let JobProgram::Train { file, .. } = &job.run.program {
            assert!(file.is_file(), "{}: {}", path.display(), file.display());
        }
        for code in &job.run.code {
            assert!(code.exists(), "{}: {}", path.display(), code.display());
        }
        seen.push((job.platform, job.workers_per_slice() > 1, job.slice().num_slices() > 1, job.slices.capacity));
    }
    assert!(seen.len() >= 5, "{seen:?}");
    use JobCapacity::{OnDemand, Reserved, Spot};
    // One host, several, several slices, spot, GKE.
    for (platform, hosts, slices, capacity) in [
        (JobPlatform::TpuVm, false, false, OnDemand),
        (JobPlatform::TpuVm, true, false, Reserved),
        (JobPlatform::TpuVm, true, true, Spot),
        (JobPlatform::TpuVm, true, false, Spot),
        (JobPlatform::Gke, true, true, Spot),
    ] {
        assert!(seen.contains(&(platform, hosts, slices, capacity)), "{seen:?}");
    }
}

#[test]
fn faults_are_told_with_the_nearest_right_value() {
    let check = |change: (&str, &str), expected: &[&str]| {
        let text = GOOD.replacen(change.0, change.1, 1);
        assert_ne!(text, GOOD, "{change:?}");
        let error = match JobFile::parse(&text) {
            Ok(job) => panic!("{change:?} was taken: {job:?}"),
            Err(error) => error.to_string(),
        };
        for part in expected {
            assert!(error.contains(part), "{change:?}: {part} is not in: {error}");
        }
    };
    let slices = "[slices]\n";
    check(("name = 'a'\n", ""), &["name: it is missing", "name = \"llama-8b\""]);
    check(("name = 'a'", "name = 'My Job!'"), &["`My Job!`", "name = \"my-job\""]);
    check(("name = 'a'", "name = 7"), &["name: it is a whole number, and must be a text"]);
    check(("name = 'a'", "naem = 'a'"), &["name: it is missing", "naem: no such key; write name"]);
    check(("[run]", "zzzzzzzz = 1\n[run]"), &["zzzzzzzz: no such key; write one of name, folder, platform"]);
    check(("[run]\n", "[run]\nplugin = 'libtpv'\n"), &["no plugin is called `libtpv`", "plugin = \"libtpu\""]);
    check(("[run]\n", "[run]\nplugin = 'libtpu==v1'\n"), &["`v1` is not a version", "libtpu==0.0.51"]);
    check(("[run]\n", "[cloud]\nhost_keys = 'all'\n[run]\n"), &["cloud.host_keys", "first"]);
    check(("gs://b/a", "gcs://b/a"), &["no store is called `gcs`", "folder = \"gs://b/a\""]);
    check(("gs://b/a", "gs://"), &["it names no bucket"]);
    check(("[run]", "platform = 'gk'\n[run]"), &["`gk` is not one of tpu-vm, gke", "platform = \"gke\""]);
    check(("train = 't.toml'", "comand = ['a']"), &["run.comand: no such key; write command", "nothing is to be run"]);
    check(("train = 't.toml'", "train = 't.toml'\ncommand = ['a']"), &["a job runs one program"]);
    check(("train = 't.toml'", "train = 't.toml'\narguments = ['--folder=x']"), &["`--folder` is what the job itself"]);
    check(("train = 't.toml'", "train = 't.toml'\ncode = 'src'"), &["run.code: it is a text", "code = [\"src\"]"]);
    check(("v6e-8", "v6e-9"), &["slices.type: no slice v6e-9", "next smaller v6e-8", "type = \"v6e-8\""]);
    check(("v6e-8", "v5litpod-16"), &["slices.type", "type = \"v5litepod-16\""]);
    check(("v6e-8", "tpu7x-128"), &["the Cloud TPU API has no tpu7x; write platform = \"gke\""]);
    check(("us-east5-b", "us-east5b"), &["slices.zones[0]: `us-east5b` is not a zone; write us-east5-"]);
    check(("us-east5-b", "us-east5"), &["us-east5 is a region", "write us-east5-a"]);
    check(("us-east5-b", "us-east1-b"), &["no v6e is known in us-east1-b; write us-east", "unlisted_zones = true"]);
    check(("zones = ['us-east5-b']", ""), &["slices.zones: no zone is named", "zones = [\"asia-northeast1-b\""]);
    check((slices, "[slices]\nregions = ['us-est5']\n"), &["no region `us-est5` is known; write us-east5"]);
    check(
        (slices, "[slices]\nregions = ['us-central1']\n"),
        &["us-east5-b is in none of slices.regions (us-central1); write us-central1-a"],
    );
    check((slices, "[slices]\ncapacity = 'spott'\n"), &["capacity = \"spot\""]);
    check((slices, "[slices]\nreservation = 'r'\n"), &["capacity = \"reserved\""]);
    check((slices, "[slices]\ncount = 0\n"), &["slices.count: 0 slices", "count = 1"]);
    check((slices, "[slices]\ncount = 2\nmin_count = 3\n"), &["3 is not between 1 and the 2", "min_count = 2"]);
    check((slices, "[slices]\ncount = -2\n"), &["-2 is out of range", "count = 0"]);
    check((slices, "[slices]\nplan = 'p.json'\n"), &["there is slices.type too"]);
    check(("type = 'v6e-8'", "plan = 'nowhere.json'"), &["slices.plan: nowhere.json: it cannot be read"]);
    check(("type = 'v6e-8'", "type = '2xv6e-8'\ncount = 3"), &["names 2 slices", "count = 2"]);
    check((slices, "[limits]\nbudget = '€5'\n[slices]\n"), &["limits.budget: `€5`", "budget = \"$500\""]);
    check((slices, "[limits]\nbudget = -5\n[slices]\n"), &["limits.budget"]);
    check((slices, "[limits]\ndeadline = 3600\n[slices]\n"), &["3600 has no unit; write deadline = \"3600s\""]);
    check((slices, "[limits]\ndeadline = '90'\n[slices]\n"), &["deadline = \"90s\""]);
    check((slices, "[limits]\nhang = 'soon'\n[slices]\n"), &["hang = \"30m\""]);
    check((slices, "[limits]\nrestart = 3\n[slices]\n"), &["limits.restart: no such key; write restarts"]);
    check((slices, "[labels]\nTeam = 'A B'\n[slices]\n"), &["labels.Team", "team = \"a-b\""]);
    check((slices, "[labels]\ntpubridge-job = 'x'\n[slices]\n"), &["the supervisor's own"]);
    check((slices, "[run.environment]\n'A-B' = 'x'\n[slices]\n"), &["run.environment.A-B", "write A_B"]);
    check((slices, "[run.environment]\nJAX_PROCESS_ID = 1\n[slices]\n"), &["the supervisor sets it"]);
    check(("[run]", "platform = 'gke'\n[run]"), &["kubernetes.image: pods need an image"]);
    check(("[run]", "[run"), &["TOML parse error at line 3"]);
}

#[test]
fn all_faults_are_told_at_once() {
    let error = JobFile::parse("nam = 'x'\n[slices]\ntype = 'v9-1'\n[limits]\nbudget = true\n").unwrap_err();
    let keys: Vec<&str> = error.faults.iter().map(|fault| fault.key.as_str()).collect();
    assert_eq!(keys, ["name", "folder", "nam", "run.train", "slices.type", "limits.budget"], "{error}");
}

#[test]
fn a_plan_names_the_slice() {
    let folder = tempfile::tempdir().unwrap();
    let text = GOOD.replace("type = 'v6e-8'", "plan = 'plan.json'\nmin_count = 1");
    std::fs::write(folder.path().join("job.toml"), text).unwrap();
    let plan = |text: &str| std::fs::write(folder.path().join("plan.json"), text).unwrap();
    let read = || JobFile::read(&folder.path().join("job.toml"));
    plan(r#"{"version": 1, "recommended": {"slice": "2xv6e-8", "batch": 16}}"#);
    let job = read().unwrap();
    assert_eq!((job.slice().num_slices(), job.processes(), job.is_elastic()), (2, 2, true));
    plan(r#"{"version": 1, "recommended": null}"#);
    let error = read().unwrap_err().to_string();
    assert!(error.contains("job.toml: slices.plan: ") && error.contains("recommends no slice"), "{error}");
}

#[test]
fn prices_are_those_of_the_region_or_the_highest() {
    let job = JobFile::parse(GOOD).unwrap();
    let spec = job.slice().spec();
    let of = |kind| spec.prices.iter().filter(move |price| price.kind == kind).map(|price| price.usd_per_chip_hour);
    let highest = of(chips::PriceKind::OnDemand).max_by(f64::total_cmp).unwrap();
    assert_eq!(job.usd_per_slice_hour("moon-1-a"), Some(8.0 * highest));
    let here = spec.price(chips::PriceKind::OnDemand, Some("us-east5")).unwrap().usd_per_chip_hour;
    assert_eq!(job.usd_per_slice_hour("us-east5-b"), Some(8.0 * here));
}
