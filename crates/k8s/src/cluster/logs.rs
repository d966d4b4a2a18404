//! What the pods of a job say: each line with the name of its pod.

use std::io::Write;

use futures_util::future::join_all;
use futures_util::io::AsyncReadExt;
use std::sync::Mutex;

use super::{Cluster, ClusterError};
use crate::cluster_job::ClusterJob;

/// Bytes of a line at most; what is longer is told in parts.
const MAX_LINE_BYTES: usize = 64 << 10;

impl Cluster {
    /// Writes the last `lines` of every pod, each with `[pod] ` in front; with `follow` also what they say from now on, until
    /// they end. Gives the number of pods.
    pub fn logs(
        &self,
        workload: &ClusterJob,
        lines: u32,
        follow: bool,
        to: &mut (dyn Write + Send),
    ) -> Result<usize, ClusterError> {
        let to = Mutex::new(to);
        self.runtime.block_on(async {
            let pods = self.pods(workload).await?;
            let names: Vec<&str> = pods.iter().filter_map(|pod| pod["metadata"]["name"].as_str()).collect();
            let told = names.iter().map(|name| self.log(workload, name, lines, follow, &to));
            join_all(told).await.into_iter().collect::<Result<Vec<()>, _>>()?;
            Ok(names.len())
        })
    }

    async fn log(
        &self,
        workload: &ClusterJob,
        pod: &str,
        lines: u32,
        follow: bool,
        to: &Mutex<&mut (dyn Write + Send)>,
    ) -> Result<(), ClusterError> {
        let path = format!(
            "/api/v1/namespaces/{}/pods/{pod}/log?container=worker&tailLines={lines}&follow={follow}",
            workload.namespace
        );
        let request = http::Request::get(path).body(Vec::new()).map_err(ClusterError::config)?;
        let failed = |error| ClusterError::api("reading the log of", format!("Pod {pod}"), error);
        let mut stream = match self.client.request_stream(request).await {
            Ok(stream) => Box::pin(stream),
            // It has not started, or is gone by now: the others have something to say.
            Err(kube::Error::Api(status)) if matches!(status.code, 400 | 404) => {
                return write(to, pod, format!("({})", status.message).as_bytes());
            }
            Err(error) => return Err(failed(error)),
        };
        let mut pending = Vec::new();
        let mut bytes = vec![0; 16 << 10];
        loop {
            let count = stream.read(&mut bytes).await.map_err(|source| ClusterError::Log { source })?;
            if count == 0 {
                break;
            }
            pending.extend_from_slice(&bytes[..count]);
            while let Some(end) = end_of_line(&pending) {
                let rest = pending.split_off(end);
                write(to, pod, &std::mem::replace(&mut pending, rest))?;
            }
        }
        if !pending.is_empty() {
            write(to, pod, &pending)?;
        }
        Ok(())
    }
}

fn end_of_line(bytes: &[u8]) -> Option<usize> {
    let end = bytes.iter().take(MAX_LINE_BYTES).position(|byte| *byte == b'\n');
    end.map(|end| end + 1).or((bytes.len() >= MAX_LINE_BYTES).then_some(MAX_LINE_BYTES))
}

fn write(to: &Mutex<&mut (dyn Write + Send)>, pod: &str, line: &[u8]) -> Result<(), ClusterError> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let whole = [b"[", pod.as_bytes(), b"] ", line, b"\n"].concat();
    let mut to = to.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    to.write_all(&whole).and_then(|()| to.flush()).map_err(|source| ClusterError::Log { source })
}
