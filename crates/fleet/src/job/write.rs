//! Writes a job file: what differs from the usual, in the order in which people read it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use toml::{Table, Value};

use super::file::{JobCapacity, JobFile, JobHostKeys, JobLimits, JobPlatform, JobProgram};

impl JobFile {
    /// The file as text, which reads back as the same job.
    pub fn to_toml(&self) -> String {
        let mut text = String::new();
        let mut top = Table::new();
        put(&mut top, "name", Some(&self.name));
        put(&mut top, "folder", Some(&self.folder));
        if self.platform != JobPlatform::TpuVm {
            put(&mut top, "platform", Some(self.platform.word()));
        }
        section(&mut text, None, &top);
        section(&mut text, Some("run"), &self.run_table());
        section(&mut text, Some("run.environment"), &map(&self.run.environment));
        section(&mut text, Some("slices"), &self.slices_table());
        section(&mut text, Some("limits"), &self.limits_table());
        section(&mut text, Some("cloud"), &self.cloud_table());
        section(&mut text, Some("kubernetes"), &self.kubernetes_table());
        section(&mut text, Some("labels"), &map(&self.labels));
        text
    }

    fn run_table(&self) -> Table {
        let mut table = Table::new();
        match &self.run.program {
            JobProgram::Train { file, arguments } => {
                put(&mut table, "train", Some(&file.display().to_string()));
                list(&mut table, "arguments", arguments);
            }
            JobProgram::Command(command) => list(&mut table, "command", command),
        }
        list(&mut table, "code", &texts(&self.run.code));
        list(&mut table, "data", &texts(&self.run.data));
        put(&mut table, "plugin", self.run.plugin.as_deref());
        put(&mut table, "setup", self.run.setup.as_deref());
        table
    }

    fn slices_table(&self) -> Table {
        let slices = &self.slices;
        let mut table = Table::new();
        let count = slices.slice.num_slices();
        match (&slices.plan, slices.slice.times(1)) {
            (Some(plan), _) => put(&mut table, "plan", Some(&plan.display().to_string())),
            (None, Ok(one)) => put(&mut table, "type", Some(&one.to_string())),
            (None, Err(_)) => put(&mut table, "type", Some(&slices.slice.to_string())),
        }
        if count > 1 {
            table.insert("count".into(), Value::Integer(count.into()));
        }
        if slices.min_slices != count {
            table.insert("min_count".into(), Value::Integer(slices.min_slices.into()));
        }
        if slices.capacity != JobCapacity::OnDemand {
            put(&mut table, "capacity", Some(slices.capacity.word()));
        }
        put(&mut table, "reservation", slices.reservation.as_deref());
        list(&mut table, "zones", &slices.zones);
        list(&mut table, "regions", &slices.regions);
        set(&mut table, "unlisted_zones", slices.unlisted_zones);
        put(&mut table, "runtime_version", slices.runtime_version.as_deref());
        table
    }

    fn limits_table(&self) -> Table {
        let (limits, usual) = (&self.limits, JobLimits::default());
        let mut table = Table::new();
        let budget = limits.budget_usd.map(|usd| format!("${usd}"));
        put(&mut table, "budget", budget.as_deref());
        time(&mut table, "deadline", limits.deadline_s);
        if limits.restarts != usual.restarts {
            table.insert("restarts".into(), Value::Integer(limits.restarts.into()));
        }
        time(&mut table, "wait", limits.wait_s);
        time(&mut table, "hang", Some(limits.hang_s).filter(|hang_s| *hang_s != usual.hang_s));
        time(&mut table, "grace", Some(limits.grace_s).filter(|grace_s| *grace_s != usual.grace_s));
        table
    }

    fn cloud_table(&self) -> Table {
        let cloud = &self.cloud;
        let mut table = Table::new();
        put(&mut table, "project", cloud.project.as_deref());
        put(&mut table, "network", cloud.network.as_deref());
        put(&mut table, "subnetwork", cloud.subnetwork.as_deref());
        set(&mut table, "external_ips", cloud.external_ips);
        put(&mut table, "service_account", cloud.service_account.as_deref());
        list(&mut table, "tags", &cloud.tags);
        list(&mut table, "disks", &cloud.disks);
        put(&mut table, "ssh_user", cloud.ssh_user.as_deref());
        put(&mut table, "ssh_key", cloud.ssh_key.as_ref().map(|key| key.display().to_string()).as_deref());
        if cloud.host_keys != JobHostKeys::default() {
            put(&mut table, "host_keys", Some(cloud.host_keys.word()));
        }
        table
    }

    fn kubernetes_table(&self) -> Table {
        let kubernetes = &self.kubernetes;
        let mut table = Table::new();
        put(&mut table, "image", kubernetes.image.as_deref());
        put(&mut table, "namespace", kubernetes.namespace.as_deref());
        put(&mut table, "queue", kubernetes.queue.as_deref());
        put(&mut table, "priority", kubernetes.priority.as_deref());
        put(&mut table, "service_account", kubernetes.service_account.as_deref());
        put(&mut table, "placement_policy", kubernetes.placement_policy.as_deref());
        put(&mut table, "volume_claim", kubernetes.volume_claim.as_deref());
        time(&mut table, "grace", kubernetes.grace_s);
        table
    }
}

fn section(text: &mut String, name: Option<&str>, table: &Table) {
    if table.is_empty() {
        return;
    }
    if let Some(name) = name {
        text.push_str(&format!("\n[{name}]\n"));
    }
    for (key, value) in table {
        let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let key =
            if key.chars().all(bare) && !key.is_empty() { key.clone() } else { Value::from(key.as_str()).to_string() };
        text.push_str(&format!("{key} = {value}\n"));
    }
}

fn put(table: &mut Table, key: &str, text: Option<&str>) {
    if let Some(text) = text {
        table.insert(key.into(), Value::String(text.into()));
    }
}

fn set(table: &mut Table, key: &str, is_set: bool) {
    if is_set {
        table.insert(key.into(), Value::Boolean(true));
    }
}

fn list(table: &mut Table, key: &str, items: &[String]) {
    if !items.is_empty() {
        table.insert(key.into(), Value::Array(items.iter().cloned().map(Value::String).collect()));
    }
}

fn texts(paths: &[PathBuf]) -> Vec<String> {
    paths.iter().map(|path| path.display().to_string()).collect()
}

fn map(items: &BTreeMap<String, String>) -> Table {
    items.iter().map(|(key, value)| (key.clone(), Value::String(value.clone()))).collect()
}

/// A time in the largest unit that divides it.
fn time(table: &mut Table, key: &str, seconds: Option<u64>) {
    let Some(seconds) = seconds else { return };
    let units = [(86400, "d"), (3600, "h"), (60, "m"), (1, "s")];
    let (size, unit) = units.into_iter().find(|(size, _)| seconds.is_multiple_of(*size)).unwrap_or((1, "s"));
    put(table, key, Some(&format!("{}{unit}", seconds / size)));
}
