//! Every option of the configuration, by what it changes. What the TPU compiler makes of the options that reach it is
//! shown with the real compiler, by the tests of `tpu compile --set`.

use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use chips::Generation;
use compile::{CacheUse, Program};
use pjrt::Effort;
use runtime::config::{
    Config, ConfigError, Fraction, Gibibytes, Host, MemoryOptimization, Mode, OPTIONS, Seconds, Setting, Switch, Target,
};
use runtime::distributed::{Given, MultiHostConfig};
use runtime::{Backend, Error, ErrorClass, Parameters, Platform, ValidationError};
use tensor::{DType, Literal};
use tracing::Level;

/// Options that are shown by `tests/it/optimize.rs`: they are the optimizer's.
const OF_THE_OPTIMIZER: [&str; 3] = ["precision", "optimization", "gradient_checkpointing"];

const LOG: &str = "module @logarithm { func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.log %x : tensor<2xf32>
  return %0 : tensor<2xf32>
} }";

fn config() -> Config {
    Config::new(Mode::Inference).device(Target::Cpu)
}

fn program(text: &str) -> Arc<Program> {
    Arc::new(Program::read(text.as_bytes().to_vec()).unwrap())
}

fn pair(values: [f32; 2]) -> Arc<Literal> {
    let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Arc::new(Literal::new(DType::F32, [2], bytes).unwrap())
}

fn run(config: &Config, values: [f32; 2]) -> Result<Literal, Error> {
    let backend = Backend::auto(config)?;
    let model = backend.prepare_program(&program(LOG), &Parameters::none())?;
    model.run(&[backend.send(&pair(values))?])?[0].to_host()
}

/// What is logged while something is done.
fn logged(level: Level, work: impl FnOnce()) -> String {
    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);
    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let kept = Kept::default();
    let writer = kept.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_ansi(false)
        .with_span_events(tracing_subscriber::fmt::format::FmtSpan::NEW)
        .with_writer(move || writer.clone())
        .finish();
    tracing::subscriber::with_default(subscriber, work);
    let bytes = kept.0.lock().unwrap().clone();
    String::from_utf8(bytes).unwrap()
}

/// The flags an option becomes on a generation.
fn flags(config: &Config, generation: Generation) -> Vec<String> {
    let options = config.tpu_options(generation, 4).unwrap();
    options.flags.iter().map(|(name, value)| format!("{name}={value}")).collect()
}

#[test]
fn every_option_is_named_here() {
    let tests = include_str!("config.rs");
    for option in OPTIONS {
        let is_used = tests.contains(&format!(".{}(", option.name)) || OF_THE_OPTIMIZER.contains(&option.name);
        assert!(is_used, "no test sets `{}`", option.name);
    }
}

#[test]
fn the_guide_lists_every_option_as_it_is() {
    let guide = std::fs::read_to_string(testkit::repository().join("docs/reference/config.md")).unwrap();
    let [inference, training, development] = [Mode::Inference, Mode::Training, Mode::Development].map(Config::new);
    for option in OPTIONS {
        let show = |config: &Config| format!("`{}`", (option.show)(config));
        let (first, others) = (show(&inference), [show(&training), show(&development)]);
        let default = if others.iter().all(|other| *other == first) {
            first
        } else {
            format!("{first}, {}, {}", others[0], others[1])
        };
        let line = format!("| `{}` | {default} | {} |", option.name, option.doc.trim());
        assert!(guide.contains(&line), "docs/reference/config.md must have the line\n{line}");
    }
    for refused in runtime::config::REFUSED {
        let line = format!("| `{}` | {} |", refused.name, refused.reason);
        assert!(guide.contains(&line), "docs/reference/config.md must have the line\n{line}");
    }
}

#[test]
fn device_and_slice() {
    assert_eq!(Backend::auto(&config().cpu_devices(3)).unwrap().devices().len(), 3);
    assert_eq!(*Backend::auto(&config()).unwrap().platform(), Platform::Cpu);
    let none = Backend::auto(&config().device(Target::Plugin("/none.so".into())));
    assert_eq!(none.unwrap_err().class(), ErrorClass::NotAvailable);
    let request = config().slice(Some("v6e-8".parse().unwrap())).compile_request().unwrap();
    assert_eq!((request.slice.chips(), request.slice.generation()), (8, Generation::V6e));
    let error = config().compile_request().unwrap_err();
    assert!(matches!(error, ConfigError::Missing { name: "slice" }), "{error}");
}

#[test]
fn memory_and_its_history() {
    let client = pjrt::ClientOptions::default().option("memory_limit_bytes", 1i64 << 20);
    let around = runtime::Surroundings { client, ..runtime::Surroundings::host() };
    let quarter = config().memory_fraction(Fraction::new(0.25).unwrap());
    assert_eq!(Backend::within(&around, &quarter).unwrap().memory().limit_bytes(), Some(1 << 18));
    let events = |seconds: f64| {
        let kept = config().allocation_history_retention_seconds(Seconds::new(seconds).unwrap());
        let backend = Backend::auto(&kept).unwrap();
        drop(backend.send(&pair([1.0, 2.0])).unwrap());
        backend.memory().history().len()
    };
    assert_eq!((events(3600.0), events(1e-9)), (2, 0));
}

#[test]
fn the_monitor_reads_at_its_interval_and_stops_by_itself() {
    let readings = |interval: f64| {
        let seconds = |seconds: f64| Seconds::new(seconds).unwrap();
        let config = config().monitoring_interval_seconds(seconds(interval)).monitoring_duration_seconds(seconds(0.2));
        Backend::auto(&config).unwrap().monitor_memory().unwrap().wait().readings.len()
    };
    assert!(readings(1e6) <= 2);
    assert!(readings(1e-6) > 2);
}

#[test]
fn caching() {
    let compilations = |config: &Config, twice: bool| {
        let backend = Backend::auto(config).unwrap();
        let other = LOG.replace("2x", "3x");
        for text in [LOG, if twice { &other } else { LOG }, LOG] {
            backend.compiler().compile(&program(text), &[], CacheUse::ReadWrite).unwrap();
        }
        backend.compiler().stats().compilations
    };
    assert_eq!(compilations(&config(), false), 1);
    assert_eq!(compilations(&config().enable_cache(false), false), 3);
    assert_eq!(compilations(&config(), true), 2);
    assert_eq!(compilations(&config().cache_max_size(1), true), 3);
}

#[test]
fn executables_for_the_next_process() {
    let folder = tempfile::tempdir().unwrap();
    let compiled = |config: &Config| {
        let backend = Backend::auto(config).unwrap();
        backend.compiler().compile(&program(LOG), &[], CacheUse::ReadWrite).unwrap();
        let stats = backend.compiler().stats();
        (stats.compilations, stats.loaded)
    };
    let kept = config().executables_dir(Some(folder.path().into()));
    assert_eq!((compiled(&kept), compiled(&kept), compiled(&config())), ((1, 0), (0, 1), (1, 0)));
    assert_eq!(compiled(&kept.enable_cache(false)), (1, 0));
}

#[test]
fn a_compilation_may_take_so_long() {
    let short = config().compilation_timeout_seconds(Seconds::new(1e-9).unwrap());
    assert_eq!(run(&short, [1.0, 1.0]).unwrap_err().class(), ErrorClass::CompilationTimeout);
}

#[test]
fn what_is_not_finite() {
    assert!(run(&config(), [-1.0, 1.0]).is_ok());
    let error = run(&config().debug_nans(true), [-1.0, 1.0]).unwrap_err();
    assert!(matches!(&error, Error::Validation(ValidationError::NotFiniteResult { op, .. }) if op.contains("log")));
    assert!(run(&config().debug_nans(true), [0.0, 1.0]).is_ok());
    let error = run(&config().debug_infs(true), [0.0, 1.0]).unwrap_err();
    assert!(
        matches!(&error, Error::Validation(ValidationError::NotFiniteResult { op, .. }) if op.contains("infinity"))
    );
}

#[test]
fn spans_of_every_stage() {
    let text = logged(Level::DEBUG, || drop(run(&config(), [1.0, 1.0]).unwrap()));
    for span in ["trace{", "lower{", "compile{", "transfer{to=\"device\"", "transfer{to=\"host\"", "execute{"] {
        assert!(text.contains(span), "{span}\n{text}");
    }
    assert!(!text.contains("interpreted"), "{text}");
    let text = logged(Level::DEBUG, || drop(run(&config().interpret(true), [1.0, 1.0]).unwrap()));
    assert!(text.contains("interpreted=true"), "{text}");
}

#[test]
fn logs_that_an_option_turns_on() {
    let text = logged(Level::INFO, || drop(run(&config(), [1.0, 1.0]).unwrap()));
    assert!(!text.contains("tpubridge::"), "{text}");
    let text = logged(Level::INFO, || drop(run(&config().log_compiles(true), [1.0, 1.0]).unwrap()));
    assert!(text.contains("tpubridge::compiles") && text.contains("the first of this name"), "{text}");
    let text = logged(Level::INFO, || drop(run(&config().log_device_placement(true), [1.0, 1.0]).unwrap()));
    assert_eq!(text.matches("tpubridge::placement").count(), 2, "an array and a program\n{text}");
    assert!(text.contains("f32[2]") && text.contains("program=\"logarithm\""), "{text}");
}

#[test]
fn profiling_writes_a_profile_once_and_one_is_recorded_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let profiles: PathBuf = folder.path().join("profiles");
    // Without `profiling` the folder is nobody's business.
    assert_eq!(Backend::auto(&config().profile_dir(profiles.clone())).unwrap().finish_profile().unwrap(), None);
    assert!(!profiles.exists());
    let backend = Backend::auto(&config().profiling(true).profile_dir(profiles.clone())).unwrap();
    assert_eq!(backend.profiler().start().unwrap_err().class(), ErrorClass::Validation);
    let path = backend.finish_profile().unwrap().unwrap();
    assert!(path.starts_with(profiles.join("plugins/profile")), "{}", path.display());
    assert_eq!(backend.finish_profile().unwrap(), None);
    // The next one may begin, also on another backend.
    let other = Backend::auto(&config()).unwrap();
    other.profiler().start().unwrap();
    assert!(other.profiler().finish().unwrap().is_some());
}

#[test]
fn what_only_a_tpu_follows_is_a_warning_elsewhere_and_an_error_in_strict_mode() {
    let mut flagged = config();
    flagged.set_xla_flags("xla_tpu_scoped_vmem_limit_kib=65536").unwrap();
    let deaf = [
        ("rematerialization", config().rematerialization(Switch::Off)),
        ("async_collectives", config().async_collectives(Switch::On)),
        ("latency_hiding", config().latency_hiding(Switch::On)),
        ("collective_matmul", config().collective_matmul(Switch::On)),
        ("megacore", config().megacore(Switch::On)),
        ("memory_optimization", config().memory_optimization(MemoryOptimization::Aggressive)),
        ("xla_flags", flagged),
    ];
    for (name, config) in deaf {
        let text = logged(Level::WARN, || drop(Backend::auto(&config).unwrap()));
        assert!(text.contains("WARN") && text.contains(name), "{name}\n{text}");
        let error = Backend::auto(&config.strict_validation(true)).unwrap_err();
        assert!(matches!(&error, Error::Validation(ValidationError::Strict(why)) if why.contains(name)), "{error}");
    }
    // Left alone, nothing is said, and development mode starts.
    assert_eq!(logged(Level::WARN, || drop(Backend::auto(&config()).unwrap())), "");
    Backend::auto(&Config::new(Mode::Development).device(Target::Cpu)).unwrap();
}

#[test]
fn switches_become_flags_and_flags_by_name_win() {
    let v6e = Generation::V6e;
    assert!(flags(&config(), v6e).is_empty());
    let hidden = config().latency_hiding(Switch::Off);
    assert_eq!(flags(&hidden, v6e), ["xla_tpu_enable_latency_hiding_scheduler=false"]);
    let given = runtime::config::XlaFlags::parse("xla_tpu_enable_latency_hiding_scheduler=true").unwrap();
    assert_eq!(flags(&hidden.xla_flags(given), v6e), ["xla_tpu_enable_latency_hiding_scheduler=true"]);
    let fused = "xla_tpu_enable_async_collective_fusion_fuse_all_gather=true".to_string();
    let beside = config().async_collectives(Switch::On);
    assert!(flags(&beside, Generation::V5e).contains(&fused));
    assert!(!flags(&beside, v6e).contains(&fused), "libtpu refuses it there");
    for generation in Generation::ALL {
        for wish in [Switch::On, Switch::Off] {
            let all = config().rematerialization(wish).async_collectives(wish).latency_hiding(wish);
            for flag in flags(&all.collective_matmul(wish), generation) {
                assert!(compile::flags::is_known(flag.split('=').next().unwrap()), "{flag}");
            }
        }
    }
}

#[test]
fn effort_levels() {
    let options = |config: Config| config.tpu_options(Generation::V5e, 1).unwrap().compile_options();
    let fast = options(config().xla_optimization_level(Some(Effort::O1)));
    assert_eq!((fast.optimization_level, fast.memory_fitting_level), (Some(Effort::O1), None));
    let roomy = options(config().memory_optimization(MemoryOptimization::None));
    assert_eq!((roomy.optimization_level, roomy.memory_fitting_level), (None, Some(Effort::O0)));
    let tight = options(config().memory_optimization(MemoryOptimization::Aggressive));
    assert_eq!(tight.memory_fitting_level, Some(Effort::O3));
    assert!(tight.overrides.contains_key("xla_tpu_rematerialization_algo"));
    assert!(Effort::read("4").is_err());
}

#[test]
fn what_a_generation_cannot_do_is_refused_with_the_reason() {
    let check = |config: &Config, generation: Generation, reason: Option<&str>| {
        let found = config.tpu_options(generation, 1).err().map(|error| error.to_string());
        assert_eq!(found.is_some(), reason.is_some(), "{generation}: {found:?}");
        assert!(found.unwrap_or_default().contains(reason.unwrap_or_default()));
    };
    let (on, off) = (config().megacore(Switch::On), config().megacore(Switch::Off));
    for generation in Generation::ALL {
        let (on_refused, off_refused) = match generation {
            Generation::V5e | Generation::V6e => (Some("has one core"), None),
            Generation::V2 | Generation::V3 | Generation::Tpu7x => (Some("each core of this generation"), None),
            Generation::V4 => (None, Some("slices of v4 are built")),
            Generation::V5p => (None, Some("no other way")),
        };
        check(&on, generation, on_refused);
        check(&off, generation, off_refused);
        let at_odds = config().rematerialization(Switch::On).memory_optimization(MemoryOptimization::None);
        check(&at_odds, generation, Some("rematerializes nothing"));
    }
}

#[test]
fn memory_of_chips_that_differ_from_the_table() {
    let gib = |gib: f64| Some(Gibibytes::new(gib).unwrap());
    let limit = |config: Config, slice: &str| {
        let request = config.slice(Some(slice.parse().unwrap())).compile_request().unwrap();
        request.flags.get("xla_tpu_max_hbm_size_mib").map(|text| text.parse::<u64>().unwrap())
    };
    let table = |slice: &str| slice.parse::<chips::Slice>().unwrap().usable_hbm_bytes_per_device() >> 20;
    assert_eq!(limit(config().v6e_memory_gb(gib(16.0)), "v6e-4"), Some(table("v6e-4") - (16 << 10)));
    assert_eq!(limit(config().v6e_memory_gb(gib(16.0)), "v5e-4"), None);
    // 192 GiB a chip, shared by two devices.
    assert_eq!(limit(config().v7_memory_gb(gib(128.0)), "tpu7x-8"), Some(table("tpu7x-8") - (32 << 10)));
}

#[test]
fn the_environment_of_a_host() {
    let names = |config: &Config, host: &Host| -> Vec<String> {
        let variables = config.environment_on(host).into_iter();
        variables.map(|variable| format!("{}={}", variable.name, variable.value)).collect()
    };
    let auto = config().device(Target::Auto);
    let bare = names(&auto, &Host::default());
    assert!(bare.contains(&"TPU_SKIP_MDS_QUERY=1".to_string()), "{bare:?}");
    assert!(!bare.iter().any(|line| line.starts_with("LIBTPU_INIT_ARGS")), "{bare:?}");
    assert_eq!(names(&config(), &Host::default()), Vec::<String>::new(), "the CPU device needs nothing");

    // On a TPU host libtpu must ask the metadata server; what the user set stays.
    let set = [("TPU_LOG_DIR", "/logs"), ("LIBTPU_INIT_ARGS", "--xla_tpu_scoped_vmem_limit_kib=65536")];
    let environment = set.map(|(name, value)| (name.to_string(), value.to_string())).into();
    let host = Host { tpu_chips: 4, environment, together: None };
    let lines = names(&auto, &host);
    assert!(!lines.iter().any(|line| line.starts_with("TPU_SKIP_MDS_QUERY") || line.starts_with("TPU_LOG_DIR")));
    let args = "LIBTPU_INIT_ARGS=--xla_tpu_scoped_vmem_limit_kib=65536 --xla_tpu_use_enhanced_launch_barrier=true";
    assert!(lines.contains(&args.to_string()), "{lines:?}");
    assert!(!lines.iter().any(|line| line.starts_with("TPU_VISIBLE_CHIPS")), "{lines:?}");

    // One of several hosts that may not ask for their place.
    let hosts = [("TPU_WORKER_HOSTNAMES", "c,d"), ("TPU_WORKER_ID", "1"), ("TPU_SKIP_MDS_QUERY", "1")];
    let given = Given { processes: Some(4), process_id: Some(3), coordinator: Some("a:5".into()) };
    let look = |wanted: &str| hosts.iter().find(|(name, _)| *name == wanted).map(|(_, value)| value.to_string());
    let together = MultiHostConfig::resolve(&given, look).unwrap();
    let environment = hosts.map(|(name, value)| (name.to_string(), value.to_string())).into();
    let together = together.map(|config| config.tpu_environment);
    let of_several = Host { tpu_chips: 4, environment, together };
    let lines = names(&auto.clone().slice(Some("v5p-16".parse().unwrap())), &of_several);
    for line in [
        "MEGASCALE_NUM_SLICES=2",
        "MEGASCALE_SLICE_ID=1",
        "MEGASCALE_COORDINATOR_ADDRESS=a:8080",
        "TPU_ACCELERATOR_TYPE=v5p-16",
        "TPU_CHIPS_PER_PROCESS_BOUNDS=2,2,1",
        "TPU_PROCESS_BOUNDS=1,1,2",
    ] {
        assert!(lines.contains(&line.to_string()), "{line}\n{lines:?}");
    }
    assert!(!lines.iter().any(|line| line.starts_with("TPU_WORKER")), "{lines:?}");

    // One chip of four.
    let lines = names(&auto.slice(Some("v5e-1".parse().unwrap())), &host);
    for line in ["TPU_VISIBLE_CHIPS=0", "TPU_CHIPS_PER_PROCESS_BOUNDS=1,1,1", "TPU_PROCESS_BOUNDS=1,1,1"] {
        assert!(lines.contains(&line.to_string()), "{line}\n{lines:?}");
    }
}
