//! Setup from fake installers and from wheel files.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use fleet::managed::Home;
use fleet::setup::{Installed, InstallerChoice, Outcome, SetupOptions, SetupPlan, SetupProgress, Trust};
use fleet::{Error, ErrorFamily};

use crate::fake::{Workshop, script, sha256, zip_file};

const LIBRARY: &[u8] = b"\x7fELF pretend library, pretend library, pretend library";

fn options(workshop: &Workshop) -> SetupOptions {
    let mut options = SetupOptions::new(workshop.system(), "libtpu");
    options.home = Some(workshop.home());
    options.machine = "x86_64".into();
    options.version = Some("0.0.99".into());
    options
}

fn run(options: &SetupOptions) -> Result<Installed, Error> {
    SetupPlan::new(options)?.run(&AtomicBool::new(false), &mut |_| {})
}

/// Nothing of a failed setup is left.
fn assert_clean(workshop: &Workshop) {
    assert_eq!(workshop.versions("libtpu"), [""; 0]);
}

fn workshop_with_wheel() -> Workshop {
    let workshop = Workshop::new();
    let wheel = workshop.wheel("0.0.99", LIBRARY);
    workshop.python_pip(&format!("cp '{}' \"$dest/\"", wheel.display()));
    workshop
}

#[test]
fn pip_download_is_unpacked_and_recorded() {
    let workshop = workshop_with_wheel();
    let mut seen = Vec::new();
    let mut options = options(&workshop);
    options.installer = InstallerChoice::Pip;
    let plan = SetupPlan::new(&options).unwrap();
    assert_eq!(plan.trust(), Trust::Recorded);
    assert!(!plan.already_installed());
    let installed = plan.run(&AtomicBool::new(false), &mut |p| seen.push(p)).unwrap();
    assert_eq!(installed.outcome, Outcome::New);
    assert_eq!(installed.path, workshop.path("home/plugins/libtpu/0.0.99/libtpu.so"));
    assert_eq!(std::fs::read(&installed.path).unwrap(), LIBRARY);
    assert_eq!(installed.record.sha256, sha256(LIBRARY));
    let wheel = std::fs::read(workshop.path("libtpu-0.0.99-cp312-cp312-manylinux_2_31_x86_64.whl")).unwrap();
    assert_eq!(installed.record.wheel_sha256, Some(sha256(&wheel)));
    assert_eq!(workshop.versions("libtpu"), ["0.0.99"]);
    let mut names: Vec<_> = std::fs::read_dir(installed.path.parent().unwrap())
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["libtpu.so", "licenses", "plugin.json"]);
    let licence = |name: &str| std::fs::read(installed.path.with_file_name("licenses").join(name)).unwrap();
    assert_eq!((licence("LICENSE"), licence("NOTICE")), (b"licence text\n".to_vec(), b"notice\n".to_vec()));
    assert!(matches!(&seen[0], SetupProgress::Started { command } if command.contains("pip download --no-deps")));
    assert_eq!(seen.last(), Some(&SetupProgress::Finishing));
    let calls = workshop.calls();
    assert!(calls[0].contains("--only-binary=:all:") && calls[0].ends_with("libtpu==0.0.99"), "{calls:?}");

    assert!(SetupPlan::new(&options).unwrap().already_installed());
    assert_eq!(run(&options).unwrap().outcome, Outcome::AlreadyInstalled);
    assert_eq!(workshop.calls().len(), 1);
    let listed = workshop.home().plugins();
    assert_eq!((listed.len(), listed[0].record.as_ref()), (1, Some(&installed.record)));
}

#[test]
fn uv_installs_with_required_hashes() {
    let workshop = Workshop::new();
    std::fs::write(workshop.path("library"), LIBRARY).unwrap();
    let hash = "ab".repeat(32);
    workshop.uv(&format!(
        "grep -q 'libtpu==0.0.99 --hash=sha256:{hash}' \"$requirements\" || exit 3\n\
         mkdir -p \"$dest/libtpu\" && cp '{}' \"$dest/libtpu/libtpu.so\" && echo text > \"$dest/libtpu/LICENSE\"",
        workshop.path("library").display()
    ));
    let mut options = options(&workshop);
    options.installer = InstallerChoice::Uv;
    options.sha256 = Some(format!("sha256:{}", hash.to_uppercase()));
    let installed = run(&options).unwrap();
    assert_eq!((installed.outcome, installed.trust), (Outcome::New, Trust::Given));
    assert_eq!(std::fs::read(&installed.path).unwrap(), LIBRARY);
    assert!(installed.path.with_file_name("licenses").join("LICENSE").is_file());
    let calls = workshop.calls();
    assert!(calls[0].starts_with("pip install --no-deps") && calls[0].contains("--require-hashes"), "{calls:?}");
    assert_eq!(run(&options).unwrap().outcome, Outcome::AlreadyInstalled);
}

#[test]
fn a_pinned_version_accepts_only_its_own_hash() {
    let workshop = Workshop::new();
    let mut options = options(&workshop);
    options.version = None;
    options.wheel = Some(workshop.wheel("0.0.51", LIBRARY));
    let plan = SetupPlan::new(&options).unwrap();
    assert_eq!((plan.trust(), plan.package_version()), (Trust::Pinned, "0.0.51"));
    let error = run(&options).unwrap_err();
    assert!(matches!(&error, Error::HashMismatch { expected, .. } if expected.len() == 7), "{error}");
    assert_clean(&workshop);

    std::fs::write(workshop.path("library"), LIBRARY).unwrap();
    workshop.uv(&format!(
        "mkdir -p \"$dest/libtpu\" && cp '{}' \"$dest/libtpu/libtpu.so\"",
        workshop.path("library").display()
    ));
    options.wheel = None;
    assert!(matches!(run(&options), Err(Error::HashMismatch { expected, .. }) if expected.len() == 1));
    assert_clean(&workshop);
}

#[test]
fn a_wheel_file_with_its_hash() {
    let workshop = Workshop::new();
    let wheel = workshop.wheel("0.0.51", LIBRARY);
    let mut options = options(&workshop);
    options.version = None;
    options.wheel = Some(wheel.clone());
    options.sha256 = Some("00".repeat(32));
    assert!(matches!(run(&options), Err(Error::HashMismatch { .. })));
    assert_clean(&workshop);
    options.sha256 = Some(sha256(&std::fs::read(wheel).unwrap()));
    let installed = run(&options).unwrap();
    assert_eq!((installed.trust, installed.record.package_version.as_str()), (Trust::Given, "0.0.51"));
    assert_eq!(workshop.calls(), [""; 0]);
}

#[test]
fn what_was_hashed_is_what_is_unpacked() {
    let workshop = Workshop::new();
    let wheel = workshop.wheel("0.0.99", LIBRARY);
    let right = sha256(&std::fs::read(&wheel).unwrap());
    let mut options = options(&workshop);
    options.wheel = Some(wheel.clone());
    options.sha256 = Some(right.clone());
    let plan = SetupPlan::new(&options).unwrap();
    // Somebody puts another wheel in its place, and another one into the same file, as soon as it was hashed.
    let mut swapped = 0;
    let mut swap = |step: SetupProgress| {
        if matches!(step, SetupProgress::Checking { .. }) {
            let other = workshop.wheel("0.0.99", b"\x7fELF another library");
            assert_eq!(other, wheel);
            swapped += 1;
        }
    };
    let installed = plan.run(&AtomicBool::new(false), &mut swap).unwrap();
    assert!(swapped > 0);
    assert_eq!(std::fs::read(&installed.path).unwrap(), LIBRARY);
    assert_eq!((installed.record.sha256, installed.record.wheel_sha256), (sha256(LIBRARY), Some(right)));
}

#[test]
fn links_out_of_a_package_are_not_followed() {
    let workshop = Workshop::new();
    std::fs::write(workshop.path("libtpu.so"), LIBRARY).unwrap();
    let outside = workshop.path("");
    for action in [
        format!("mkdir -p \"$dest/libtpu\" && ln -s '{}/libtpu.so' \"$dest/libtpu/libtpu.so\"", outside.display()),
        format!("ln -s '{}' \"$dest/libtpu\"", outside.display()),
        "mkdir -p \"$dest/libtpu/libtpu.so\"".to_string(),
    ] {
        workshop.uv(&action);
        let mut options = options(&workshop);
        options.installer = InstallerChoice::Uv;
        let error = run(&options).unwrap_err();
        assert!(matches!(error, Error::Io { .. }), "{action}: {error}");
        assert_clean(&workshop);
    }
}

#[test]
fn damaged_wheels_leave_nothing() {
    let workshop = Workshop::new();
    let noise: Vec<u8> = (0..4000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let wheel = workshop.wheel("0.0.99", &noise);
    let good = std::fs::read(&wheel).unwrap();
    let mut options = options(&workshop);
    options.wheel = Some(wheel.clone());
    let mut refused = 0;
    let mut try_with = |bytes: &[u8]| {
        std::fs::write(&wheel, bytes).unwrap();
        match run(&options) {
            Ok(installed) => {
                assert_eq!(std::fs::read(&installed.path).unwrap(), noise);
                std::fs::remove_dir_all(workshop.path("home")).unwrap();
            }
            Err(error) => {
                assert_eq!(error.family(), ErrorFamily::Input, "{error}");
                assert_clean(&workshop);
                refused += 1;
            }
        }
    };
    for length in (0..good.len()).step_by(97) {
        try_with(&good[..length]);
    }
    for position in (0..good.len()).step_by(53) {
        let mut bad = good.clone();
        bad[position] ^= 0x55;
        try_with(&bad);
    }
    try_with(b"<html>not found</html>");
    assert!(refused > 50, "{refused}");
}

#[test]
fn wheels_of_something_else_are_refused() {
    let workshop = Workshop::new();
    let mut options = options(&workshop);
    let mut check = |members: &[(&str, &[u8])], text: &str| {
        let path = workshop.path("x.whl");
        zip_file(&path, members);
        options.wheel = Some(path);
        let error = run(&options).unwrap_err();
        assert!(matches!(error, Error::Wheel { .. }) && error.to_string().contains(text), "{error} has no {text:?}");
        assert_clean(&workshop);
    };
    let info = "x.dist-info/METADATA";
    check(&[("a", b"b")], "no METADATA");
    check(&[(info, b"Name: libtpu\n")], "no name or version");
    check(&[(info, b"Name: numpy\nVersion: 1\n")], "numpy");
    check(&[(info, b"Name: libtpu\nVersion: 0.0.98\n")], "0.0.98");
    check(&[(info, b"Name: libtpu\nVersion: ../../x\n")], "not a version");
    check(&[(info, b"Name: libtpu\nVersion: 0.0.99\n")], "no libtpu/libtpu.so");
}

#[test]
fn a_failing_installer_is_quoted() {
    let workshop = Workshop::new();
    workshop.python_pip("echo 'ERROR: No matching distribution found for libtpu==0.0.99' >&2; exit 1");
    let error = run(&options(&workshop)).unwrap_err();
    assert!(error.to_string().contains("No matching distribution"), "{error}");
    assert_eq!(error.family(), ErrorFamily::Machine);
    assert!(error.remedy().is_some());
    assert_clean(&workshop);
    workshop.python_pip(":");
    assert!(run(&options(&workshop)).unwrap_err().to_string().contains("left 0 wheels"));
    assert_clean(&workshop);
}

#[test]
fn a_folder_that_cannot_be_made_is_an_error_of_the_machine() {
    let workshop = workshop_with_wheel();
    std::fs::write(workshop.path("file"), "").unwrap();
    let mut options = options(&workshop);
    for home in [workshop.path("file/home"), "/proc/no-such-folder".into()] {
        options.home = Some(Home::at(home));
        let error = run(&options).unwrap_err();
        assert!(matches!(error, Error::Io { .. }), "{error}");
        assert_eq!(error.family(), ErrorFamily::Machine);
        assert!(std::error::Error::source(&error).is_some());
    }
    assert_eq!(workshop.calls(), [""; 0]);
}

#[test]
fn setups_at_the_same_time_download_once() {
    let workshop = workshop_with_wheel();
    let options = options(&workshop);
    let outcomes: Vec<Outcome> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| run(&options).unwrap().outcome)).collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    assert_eq!(outcomes.iter().filter(|o| **o == Outcome::New).count(), 1, "{outcomes:?}");
    assert_eq!(outcomes.iter().filter(|o| **o == Outcome::AlreadyInstalled).count(), 7);
    assert_eq!(workshop.calls().len(), 1);
    assert_eq!(workshop.versions("libtpu"), ["0.0.99"]);
}

#[test]
fn a_damaged_installation_is_replaced() {
    let workshop = workshop_with_wheel();
    let options = options(&workshop);
    let installed = run(&options).unwrap();
    let damage: [&dyn Fn(); 4] = [
        &|| std::fs::write(&installed.path, vec![b'x'; LIBRARY.len()]).unwrap(),
        &|| std::fs::write(&installed.path, "short").unwrap(),
        &|| std::fs::write(installed.path.with_file_name("plugin.json"), "{}").unwrap(),
        &|| std::fs::remove_file(&installed.path).unwrap(),
    ];
    for damage in damage {
        damage();
        assert_eq!(run(&options).unwrap().outcome, Outcome::Replaced);
        assert_eq!(std::fs::read(&installed.path).unwrap(), LIBRARY);
        assert_eq!(workshop.versions("libtpu"), ["0.0.99"]);
    }
    let dir = installed.path.parent().unwrap();
    std::fs::remove_dir_all(dir).unwrap();
    std::fs::write(dir, "a file in the way").unwrap();
    assert_eq!(run(&options).unwrap().outcome, Outcome::Replaced);
}

#[test]
fn cancelling_ends_the_installer_and_leaves_nothing() {
    let workshop = Workshop::new();
    workshop.python_pip("echo half > \"$dest/libtpu.whl\"; sleep 600");
    let cancel = AtomicBool::new(false);
    let plan = SetupPlan::new(&options(&workshop)).unwrap();
    let result = plan.run(&cancel, &mut |progress| {
        if matches!(progress, SetupProgress::Downloading { bytes, .. } if bytes > 0) {
            cancel.store(true, Ordering::Relaxed);
        }
    });
    assert!(matches!(result, Err(Error::Cancelled)));
    assert_clean(&workshop);

    let workshop = workshop_with_wheel();
    let cancel = AtomicBool::new(false);
    let result = SetupPlan::new(&options(&workshop)).unwrap().run(&cancel, &mut |progress| {
        if matches!(progress, SetupProgress::Unpacking { .. } | SetupProgress::Finishing) {
            cancel.store(true, Ordering::Relaxed);
        }
    });
    assert!(matches!(result, Err(Error::Cancelled)));
    assert_clean(&workshop);
}

#[test]
fn waiting_for_another_setup_can_be_cancelled() {
    let workshop = workshop_with_wheel();
    let dir = workshop.home().plugin_dir("libtpu");
    std::fs::create_dir_all(&dir).unwrap();
    let lock = std::fs::File::create(dir.join(".lock")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let cancel = AtomicBool::new(false);
    let result = SetupPlan::new(&options(&workshop)).unwrap().run(&cancel, &mut |progress| {
        assert_eq!(progress, SetupProgress::Waiting);
        cancel.store(true, Ordering::Relaxed);
    });
    assert!(matches!(result, Err(Error::Cancelled)));
    assert_eq!(workshop.calls(), [""; 0]);
}

#[test]
fn what_a_killed_setup_left_is_removed() {
    let workshop = workshop_with_wheel();
    let stale = workshop.home().plugin_dir("libtpu").join(".tmp-old/stage");
    std::fs::create_dir_all(&stale).unwrap();
    run(&options(&workshop)).unwrap();
    assert_eq!(workshop.versions("libtpu"), ["0.0.99"]);
}

#[test]
fn bad_requests_are_refused_before_anything_runs() {
    let workshop = workshop_with_wheel();
    let good = options(&workshop);
    let check = |change: &dyn Fn(&mut SetupOptions), expected: &dyn Fn(&Error) -> bool| {
        let mut options = good.clone();
        change(&mut options);
        let error = SetupPlan::new(&options).unwrap_err();
        assert!(expected(&error), "{error:?}");
        assert!(error.remedy().is_some(), "{error:?}");
    };
    check(&|o| o.package = "tensorflow".into(), &|e| matches!(e, Error::UnknownPackage { .. }));
    check(&|o| o.version = Some("--upgrade".into()), &|e| matches!(e, Error::BadVersion { .. }));
    check(&|o| o.sha256 = Some("abc".into()), &|e| matches!(e, Error::BadHash { .. }));
    check(&|o| o.machine = "aarch64".into(), &|e| matches!(e, Error::Unsupported { .. }));
    check(&|o| o.home = None, &|e| matches!(e, Error::NoHome));
    check(&|o| o.installer = InstallerChoice::Uv, &|e| matches!(e, Error::InstallerMissing { name: "uv" }));
    check(&|o| o.system = fleet::System::new("/", []), &|e| matches!(e, Error::NoInstaller));
    assert!(matches!(
        SetupPlan::new(&SetupOptions { wheel: Some("/no/such.whl".into()), ..good.clone() }),
        Err(Error::Io { .. })
    ));
    assert_eq!(workshop.calls(), [""; 0]);
}

#[test]
fn a_python_without_pip_is_passed_over() {
    let workshop = Workshop::new();
    script(&workshop.path("bin/python3"), "#!/bin/sh\necho 'No module named pip' >&2\nexit 1\n");
    script(&workshop.path("bin/pip3"), "#!/bin/sh\nexit 7\n");
    let error = run(&options(&workshop)).unwrap_err();
    assert!(error.to_string().starts_with("`pip3 download"), "{error}");
}

#[test]
fn the_plan_says_what_will_happen() {
    let workshop = workshop_with_wheel();
    let mut options = options(&workshop);
    options.version = None;
    options.home = Some(Home::at("/h"));
    let plan = SetupPlan::new(&options).unwrap();
    assert_eq!(
        plan.describe(),
        "libtpu 0.0.51 for Linux on x86_64\n\
         \x20 download  204.8 MB, with python3 -m pip\n\
         \x20 installed 574.8 MB\n\
         \x20 into      /h/plugins/libtpu/0.0.51\n\
         \x20 check     sha256 known to this program\n"
    );
    assert_eq!(plan.destination(), Path::new("/h/plugins/libtpu/0.0.51"));
    let json = serde_json::to_value(&plan).unwrap();
    assert_eq!((json["version"].as_u64(), json["download_bytes"].as_u64()), (Some(1), Some(204_805_132)));
    options.package = "xla-cpu-pjrt".into();
    assert!(SetupPlan::new(&options).unwrap().describe().contains("download  63.5 MB"));
    options.version = Some("9.9".into());
    assert!(SetupPlan::new(&options).unwrap().describe().contains("will only be recorded"));
}
