//! What the chips of many hosts do: asked of libtpu's metric service on each, all at once, whatever of it fails.
//!
//! [`MonitorTarget`]s are the hosts, [`HostMonitor::look`] asks all of them and gives a [`HostsSnapshot`]: plain data that becomes a table,
//! JSON, Prometheus text ([`families`]) or a frame of the live view ([`live`]).

mod collect;
mod devices;
mod endpoint;
mod families;
mod format;
mod kubernetes;
mod live;
mod own;
mod run;
mod screen;
mod snapshot;
mod table;
mod targets;
mod view;

pub use collect::{HostMonitor, MonitorError};
pub use devices::{DeviceRecord, devices};
pub use endpoint::Endpoint;
pub use families::{families, located};
pub use kubernetes::Selector;
pub use live::{Live, live};
pub use own::OwnHost;
pub(crate) use run::number as metric_number;
pub use run::{RunSource, WatchedRun};
pub use snapshot::{HostRecord, HostState, HostsSnapshot, MONITOR_VERSION};
pub use table::to_table;
pub use targets::{MonitorTarget, hosts, hosts_of, slice_or_local};
pub use view::Colours;
