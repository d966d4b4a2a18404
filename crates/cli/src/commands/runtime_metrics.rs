//! `--runtime-metrics`: the devices of this process, told as libtpu tells its own.

use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;

use runtime::{Backend, DeviceTelemetry, OtherMetrics, Platform};
use telemetry::grpc::{GrpcLimits, GrpcServer};
use telemetry::runtime_metrics::RuntimeMetricService;

use crate::args::RuntimeMetricsArgs;
use crate::failure::Failure;
use crate::log;

/// Where a server listens: `HOST:PORT`, or a port of the loopback address.
pub(crate) fn listen_address(text: &str) -> Result<SocketAddr, Failure> {
    let hint = "give HOST:PORT, as in 0.0.0.0:8431, or a port of the loopback address, as in 8431";
    if let Ok(port) = text.parse::<u16>() {
        return Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    }
    let resolved =
        text.to_socket_addrs().map_err(|error| Failure::new(format!("`{text}` is no address: {error}")).hint(hint))?;
    let resolved = resolved.into_iter().next();
    resolved.ok_or_else(|| Failure::new(format!("`{text}` has no address")).hint(hint))
}

/// Serves the devices of a backend, and other metrics of the process, until the server is dropped. `None` where nobody asked.
pub(crate) fn serve(
    args: &RuntimeMetricsArgs,
    backend: &Backend,
    others: Box<OtherMetrics>,
) -> Result<Option<GrpcServer>, Failure> {
    let Some(text) = &args.runtime_metrics else { return Ok(None) };
    let address = listen_address(text)?;
    let source = Arc::new(DeviceTelemetry::new(backend, others));
    match GrpcServer::start(address, Arc::new(RuntimeMetricService::new(source)), GrpcLimits::default()) {
        Ok(server) => {
            log::say(&format!("runtime metrics at {}", server.address()));
            Ok(Some(server))
        }
        // libtpu serves its own devices, and tells more of them.
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse && *backend.platform() == Platform::Tpu => {
            log::say(&format!("runtime metrics at {address} are served by libtpu"));
            Ok(None)
        }
        Err(error) => Err(Failure::new(format!("runtime metrics cannot be served at {address}: {error}"))
            .hint("choose another port; each process of a machine needs its own")),
    }
}
