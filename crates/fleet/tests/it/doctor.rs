//! The doctor on fake machines, and on this one.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::time::Duration;

use fleet::System;
use fleet::doctor::{Check, DoctorOptions, DoctorReport, NetworkAccess, ProbeDepth, ProbeFindings, Status, examine};

use pjrt::discover::{FoundPlugin, PluginOrigin, Search};

use crate::fake::{Machine, script};

fn offline(system: System) -> DoctorOptions<'static> {
    let mut options = DoctorOptions::new(system);
    options.network = NetworkAccess::Offline;
    options
}

fn report(machine: &Machine) -> DoctorReport {
    examine(&offline(machine.system()))
}

fn line<'r>(report: &'r DoctorReport, name: &str) -> &'r Check {
    report.checks.iter().find(|c| c.name == name).unwrap_or_else(|| panic!("no {name} in {report:#?}"))
}

/// Asserts the status of one line and that its text has a part; what is not ok must have a remedy.
fn check(report: &DoctorReport, name: &str, status: Status, part: &str) {
    let line = line(report, name);
    assert_eq!(line.status, status, "{line:?}");
    assert!(line.detail.contains(part), "{line:?} has no {part:?}");
    if status >= Status::Warn {
        assert!(line.remedy.is_some(), "{line:?}");
    }
}

/// A machine with four v5e chips.
fn tpu_vm() -> Machine {
    let machine = Machine::new();
    for n in 0..4 {
        let folder = format!("/sys/bus/pci/devices/0000:00:0{n}.0");
        machine.file(&format!("{folder}/vendor"), "0x1ae0\n").file(&format!("{folder}/device"), "0x0063\n");
        machine.file(&format!("/dev/vfio/{n}"), "");
    }
    let network = "/sys/bus/pci/devices/0000:00:09.0";
    machine.file(&format!("{network}/vendor"), "0x1ae0\n").file(&format!("{network}/device"), "0x0042\n");
    machine.file(&format!("{network}/class"), "0x020000\n");
    machine.file("/dev/vfio/vfio", "").file("/tmp/.keep", "");
    machine
}

#[test]
fn an_empty_machine_is_described() {
    let report = report(&Machine::new());
    check(&report, "plugin", Status::Fail, "no PJRT plugin");
    check(&report, "TPU chips", Status::Skipped, "no TPU");
    check(&report, "memory", Status::Skipped, "");
    check(&report, "installer", Status::Warn, "neither uv");
    check(&report, "libtpu lock", Status::Ok, "not there");
    assert_eq!(report.worst(), Status::Fail);
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["version"], 1);
    assert_eq!(json["checks"][0]["status"], "fail");
}

#[test]
fn a_tpu_machine_is_described() {
    let machine = tpu_vm();
    machine
        .file("/proc/meminfo", "MemTotal:       16777216 kB\nMemFree: 1 kB\nMemAvailable:    8388608 kB\n")
        .file("/proc/self/status", "Name:\tx\nCpus_allowed_list:\t0-7\n")
        .file("/proc/self/limits", "Max open files  1048576 1048576 files\nMax locked memory  65536 65536 bytes\n")
        .file("/proc/sys/vm/overcommit_memory", "2\n");
    let report = report(&machine);
    check(&report, "TPU chips", Status::Ok, "4 × TPU v5e");
    check(&report, "device nodes", Status::Ok, "/dev/vfio/3");
    check(&report, "memory", Status::Ok, "8.0 GiB available of 16.0 GiB");
    check(&report, "processors", Status::Ok, "8 usable");
    check(&report, "limits", Status::Warn, "locked memory 65536");
    check(&report, "overcommit", Status::Warn, "2");
    machine.file("/sys/fs/cgroup/memory.max", "1073741824\n").file("/sys/fs/cgroup/memory.current", "900000000\n");
    check(&self::report(&machine), "memory", Status::Fail, "limit of this container");
    std::fs::remove_dir_all(machine.root().join("dev")).unwrap();
    check(&self::report(&machine), "device nodes", Status::Fail, "4 TPU chips");
}

#[test]
fn an_unknown_chip_is_not_called_a_tpu() {
    let machine = Machine::new();
    let folder = "/sys/bus/pci/devices/0000:00:04.0";
    machine.file(&format!("{folder}/vendor"), "0x1ae0\n").file(&format!("{folder}/device"), "0x00ff\n");
    check(&report(&machine), "TPU chips", Status::Warn, "0x00ff");
}

#[test]
fn variables_are_judged() {
    let check_on = |machine: Machine, vars: &[(&str, &str)], name: &str, status: Status, part: &str| {
        let machine = vars.iter().fold(machine, |m, (k, v)| m.var(k, *v));
        check(&report(&machine), name, status, part);
    };
    let check = |vars: &[(&str, &str)], name: &str, status, part: &str| {
        check_on(Machine::new(), vars, name, status, part);
    };
    use Status::{Fail, Ok, Warn};
    check(&[], "environment", Ok, "no variable");
    check(&[("TPU_SKIP_MDS_QUERY", "1")], "TPU_SKIP_MDS_QUERY", Ok, "set");
    check(&[("TPU_SKIP_MDS_QUERY", "maybe")], "TPU_SKIP_MDS_QUERY", Warn, "maybe");
    check_on(tpu_vm(), &[("TPU_SKIP_MDS_QUERY", "1")], "TPU_SKIP_MDS_QUERY", Warn, "does not learn its slice");
    check(&[("TPU_LIBRARY_PATH", "/no/libtpu.so")], "TPU_LIBRARY_PATH", Fail, "does not exist");
    check(&[("TPU_LIBRARY_PATH", "libtpu.so")], "TPU_LIBRARY_PATH", Warn, "current folder");
    check(&[("TPU_LIBRARY_PATH", "/")], "TPU_LIBRARY_PATH", Fail, "folder");
    check(&[("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")], "ALLOW_MULTIPLE_LIBTPU_LOAD", Ok, "several");
    check_on(tpu_vm(), &[("ALLOW_MULTIPLE_LIBTPU_LOAD", "true")], "ALLOW_MULTIPLE_LIBTPU_LOAD", Warn, "same chips");
    check(&[("LIBTPU_INIT_ARGS", "--a=1 b")], "LIBTPU_INIT_ARGS", Fail, "\"b\" is not a flag");
    check(&[("LIBTPU_INIT_ARGS", "--a=1 --a=2")], "LIBTPU_INIT_ARGS", Warn, "1 and as 2");
    check(&[("LIBTPU_INIT_ARGS", "--a=1")], "LIBTPU_INIT_ARGS", Warn, "ends the process");
    check(&[("XLA_FLAGS", "--xla_tpu_x=1")], "XLA_FLAGS", Warn, "belongs to libtpu");
    check(&[("XLA_FLAGS", "--xla_dump_to=/tmp/x")], "XLA_FLAGS", Ok, "xla_dump_to");
    check(&[("JAX_PLATFORMS", "cpu")], "JAX_PLATFORMS", Warn, "leaves out tpu");
    check(&[("JAX_PLATFORMS", "tpu,cpu")], "JAX_PLATFORMS", Ok, "tpu");
    check(&[("TPU_ACCELERATOR_TYPE", "v5litepod-16")], "TPU_ACCELERATOR_TYPE", Ok, "v5litepod-16");
    check(&[("TPU_ACCELERATOR_TYPE", "v99-1")], "TPU_ACCELERATOR_TYPE", Fail, "v99-1");
    check_on(tpu_vm(), &[("TPU_ACCELERATOR_TYPE", "v4-8")], "TPU_ACCELERATOR_TYPE", Fail, "this machine has v5e");
    check(
        &[("TPU_ACCELERATOR_TYPE", "v5litepod-16"), ("TPU_WORKER_HOSTNAMES", "a,b")],
        "TPU_ACCELERATOR_TYPE",
        Fail,
        "names 2",
    );
    check(&[("TPU_WORKER_ID", "x")], "TPU_WORKER_ID", Fail, "not a number");
    check(&[("TPU_WORKER_ID", "2"), ("TPU_WORKER_HOSTNAMES", "a,b")], "TPU_WORKER_ID", Fail, "only 2");
    check(&[("TPU_WORKER_HOSTNAMES", "a,b")], "TPU_WORKER_ID", Warn, "not set");
    check(&[("TPU_WORKER_HOSTNAMES", "a,,b")], "TPU_WORKER_HOSTNAMES", Fail, "empty");
    check(&[("TPU_WORKER_HOSTNAMES", "a,b,a")], "TPU_WORKER_HOSTNAMES", Fail, "twice");
    check(&[("TPU_WORKER_ID", "1"), ("TPU_WORKER_HOSTNAMES", "a,b")], "TPU_WORKER_ID", Ok, "worker 1 of 2");
    check(&[("MEGASCALE_NUM_SLICES", "2")], "MEGASCALE", Fail, "COORDINATOR");
    check(&[("MEGASCALE_NUM_SLICES", "two")], "MEGASCALE", Fail, "not a number");
    check(&[("MEGASCALE_SLICE_ID", "0")], "MEGASCALE", Warn, "NUM_SLICES");
    let slices = [("MEGASCALE_NUM_SLICES", "2"), ("MEGASCALE_COORDINATOR_ADDRESS", "h:8080")];
    check(&[slices.as_slice(), &[("MEGASCALE_SLICE_ID", "2")]].concat(), "MEGASCALE", Fail, "count from 0");
    check(&[slices.as_slice(), &[("MEGASCALE_SLICE_ID", "1")]].concat(), "MEGASCALE", Ok, "slice 1 of 2");
    check(&slices, "MEGASCALE", Fail, "MEGASCALE_SLICE_ID");
}

#[test]
fn the_lock_holder_is_named() {
    let machine = Machine::new();
    machine.file("/tmp/libtpu_lockfile", "");
    check(&report(&machine), "libtpu lock", Status::Ok, "nobody holds it");
    let path = machine.root().join("tmp/libtpu_lockfile");
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    rustix::fs::fcntl_lock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
    std::os::unix::fs::symlink("/proc", machine.root().join("proc")).unwrap();
    let name = std::fs::read_to_string(format!("/proc/{}/comm", std::process::id())).unwrap();
    let holder = format!("{} (process {})", name.trim(), std::process::id());
    check(&report(&machine), "libtpu lock", Status::Warn, &holder);
    drop(file);
}

#[test]
fn busy_ports_are_named() {
    let machine = Machine::new();
    let header = "  sl  local_address rem_address   st\n";
    let rest = "00000000:00000000 00:00000000 00000000     0        0";
    machine.file("/proc/net/tcp", format!("{header}   0: 0100007F:20EF 00000000:0000 0A {rest} 126 1 0\n"));
    machine.file(
        "/proc/net/tcp6",
        format!("{header}   0: {}:2117 {}:0000 0A {rest} 127 1 0\n", "0".repeat(32), "0".repeat(32)),
    );
    machine.file("/proc/41/comm", "trainer\n").file("/proc/41/fd/.keep", "");
    std::os::unix::fs::symlink("socket:[126]", machine.root().join("proc/41/fd/3")).unwrap();
    let report = report(&machine);
    check(&report, "runtime metrics", Status::Ok, "trainer (process 41)");
    check(&report, "ports", Status::Warn, "8471 (libtpu between hosts) is held by a process of another user");
}

/// Answers one connection with a text, on a thread.
fn serve(answer: &'static str) -> (SocketAddr, std::thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = Vec::new();
        let mut byte = [0];
        while !request.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() == 1 {
            request.push(byte[0]);
        }
        stream.write_all(answer.as_bytes()).unwrap();
        String::from_utf8(request).unwrap()
    });
    (address, thread)
}

#[test]
fn the_metadata_server_is_asked() {
    let ask = |machine: &Machine, metadata_server| {
        let mut options = offline(machine.system());
        options.network = NetworkAccess::Online { metadata_server, limit: Duration::from_secs(60) };
        examine(&options)
    };
    let (address, server) =
        serve("HTTP/1.1 200 OK\r\nMetadata-Flavor: Google\r\nContent-Length: 12\r\n\r\nv5litepod-16");
    check(&ask(&Machine::new(), address), "Google Compute", Status::Ok, "accelerator type v5litepod-16");
    let request = server.join().unwrap();
    assert!(request.starts_with("GET /computeMetadata/v1/instance/attributes/accelerator-type HTTP/1.1\r\n"));
    assert!(request.contains("\r\nMetadata-Flavor: Google\r\n"), "{request}");

    let (address, server) = serve("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    check(&ask(&Machine::new(), address), "Google Compute", Status::Warn, "not as Google's");
    server.join().unwrap();

    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    check(&ask(&Machine::new(), closed), "Google Compute", Status::Ok, "not on Google Compute");
    check(&ask(&tpu_vm(), closed), "Google Compute", Status::Warn, "cannot be reached");
    check(&report(&tpu_vm()), "Google Compute", Status::Skipped, "offline");
}

#[test]
fn the_probe_decides_about_the_plugin() {
    let machine = Machine::new();
    let plugin = |name: &str, version: Option<&str>| FoundPlugin {
        name: "libtpu".into(),
        path: machine.root().join(name),
        origin: PluginOrigin::Explicit,
        version: version.map(str::to_owned),
    };
    let loaded = |_: &Path| {
        let note = Some("stablehlo 1.23.0".into());
        Ok(ProbeFindings { depth: ProbeDepth::Loaded, file_bytes: 574_812_664, api_version: Some((0, 116)), note })
    };
    let mut options = offline(machine.system());
    options.plugins =
        Search { found: vec![plugin("a.so", Some("0.0.51")), plugin("b.so", None)], rejected: Vec::new() };
    options.probe = &loaded;
    let report = examine(&options);
    check(&report, "plugin", Status::Ok, "a.so (given path); 1 more found");
    check(&report, "plugin version", Status::Ok, "libtpu 0.0.51");
    check(&report, "plugin loads", Status::Ok, "574.8 MB, stablehlo 1.23.0");
    check(&report, "plugin API", Status::Ok, "PJRT 0.116");
    let crashed = |_: &Path| Err("ended with SIGABRT".to_owned());
    options.probe = &crashed;
    check(&examine(&options), "plugin loads", Status::Fail, "SIGABRT");
}

#[test]
fn managed_plugins_are_found_without_help() {
    let machine = Machine::new().var("TPUBRIDGE_HOME", "/home");
    machine.file("/home/plugins/libtpu/0.0.51/libtpu.so", "\x7fELF and no more");
    machine.file("/home/plugins/libtpu/0.0.50/libtpu.so", "\x7fELF and no more");
    let report = report(&machine);
    check(&report, "plugin", Status::Ok, "libtpu/0.0.51/libtpu.so (managed folder");
    check(&report, "plugin version", Status::Ok, "libtpu 0.0.51");
    check(&report, "plugin loads", Status::Fail, "too short");
    check(&report, "disk: plugins", line(&report, "disk: plugins").status, "free for");
}

#[test]
fn a_plugin_somebody_pointed_at_in_vain_is_named() {
    let machine = Machine::new().var("TPU_LIBRARY_PATH", "/lib/libtpu.so");
    machine.file("/lib/libtpu.so", "not a library");
    check(&report(&machine), "plugin", Status::Fail, "libtpu.so ($TPU_LIBRARY_PATH): not a shared library");
}

#[test]
fn discovery_finds_what_setup_installed_and_nothing_unfinished() {
    let machine = Machine::new().var("TPUBRIDGE_HOME", "/home");
    machine.file("/home/plugins/libtpu/.tmp-x/stage/libtpu.so", "\x7fELF unfinished");
    machine.file("/home/plugins/libtpu/.tmp-x/download/libtpu/libtpu.so", "\x7fELF unfinished");
    check(&report(&machine), "plugin", Status::Fail, "no PJRT plugin");
    machine.file("/home/plugins/xla-cpu-pjrt/0.0.1/xla_cpu_pjrt.so", "\x7fELF");
    check(&report(&machine), "plugin", Status::Ok, "xla_cpu_pjrt.so");
}

#[test]
fn installers_are_listed() {
    let machine = Machine::new().var("PATH", "/bin");
    script(&machine.root().join("bin/uv"), "#!/bin/sh\nexit 0\n");
    check(&report(&machine), "installer", Status::Ok, "uv pip");
}

#[test]
fn odd_files_never_panic() {
    let files = [
        "/proc/locks",
        "/proc/meminfo",
        "/proc/net/tcp",
        "/proc/net/tcp6",
        "/proc/self/limits",
        "/proc/self/status",
        "/proc/sys/vm/overcommit_memory",
        "/proc/1/comm",
        "/sys/bus/pci/devices/x/vendor",
        "/sys/bus/pci/devices/x/device",
        "/sys/bus/pci/devices/x/class",
        "/sys/fs/cgroup/memory.max",
        "/tmp/libtpu_lockfile",
        "/dev/accel0",
        "/home/plugins/libtpu/1/libtpu.so",
        "/home/plugins/libtpu/1/plugin.json",
    ];
    let long = "9".repeat(10_000);
    let contents: [&[u8]; 8] = [
        b"",
        b"\n\n:::\n,,--==",
        b"\xff\xfe\x00\x01",
        long.as_bytes(),
        b"0: -1:-1 0:0 0A 0 0 0 0 0 -1\n1: POSIX ADVISORY WRITE 99999999999999999999 ::: 0 EOF",
        b"MemTotal: 18446744073709551615 kB\nMemAvailable: 18446744073709551615 kB\nCpus_allowed_list: 5-1,\nMax open files -1",
        "é × 漢字 \u{202e}".as_bytes(),
        b"0x1ae0",
    ];
    for content in contents {
        let mut machine = Machine::new().var("TPUBRIDGE_HOME", "/home");
        for name in [
            "TPU_WORKER_ID",
            "TPU_WORKER_HOSTNAMES",
            "TPU_ACCELERATOR_TYPE",
            "LIBTPU_INIT_ARGS",
            "XLA_FLAGS",
            "MEGASCALE_NUM_SLICES",
            "MEGASCALE_X",
            "PATH",
            "TMPDIR",
        ] {
            use std::os::unix::ffi::OsStrExt;
            machine = machine.var(name, std::ffi::OsStr::from_bytes(content));
        }
        for file in files {
            machine.file(file, content);
        }
        let report = report(&machine);
        assert!(report.checks.iter().all(|c| !c.detail.contains('\n')), "{report:#?}");
    }
}

#[test]
fn this_machine_can_be_examined() {
    let report = examine(&offline(System::host()));
    check(&report, "memory", line(&report, "memory").status, "GiB available");
    check(&report, "Google Compute", Status::Skipped, "offline");
}
