//! Jobs on Kubernetes: what a job file means there, as manifests of Google Kubernetes Engine.
//!
//! - [`ClusterJob::of`] reads a [`fleet::job::JobFile`]; what Kubernetes cannot do is refused or noted.
//! - [`manifests`] writes it down: a JobSet for slices of several hosts, a plain Job for one host, with the ConfigMap of its
//!   files and the Secret of its processes beside it.
//! - [`yaml`] prints them.
//! - [`cluster::Cluster`] makes, watches and deletes it through the API of a cluster.
//! - [`differences`] says where they differ from those of Google's `xpk`, and why.
//!
//! ```
//! use fleet::job::JobFile;
//! use k8s::{RunSecret, ClusterJob, manifests, yaml};
//!
//! let job = JobFile::parse(
//!     "name = 'big'\nfolder = 'gs://bucket/big'\nplatform = 'gke'\n\
//!      [run]\ncommand = ['python', 'train.py']\n[slices]\ntype = 'v5p-128'\ncount = 2\n[kubernetes]\nimage = 'example/image:1'\n",
//! )?;
//! let workload = ClusterJob::of(&job, &|path| std::fs::read_to_string(path))?;
//! let objects = manifests(&workload, &RunSecret::new("0123456789abcdef0123456789abcdef"));
//! let job_set = &objects.last().unwrap();
//! assert_eq!(job_set["kind"], "JobSet");
//! assert_eq!(job_set["spec"]["replicatedJobs"][0]["replicas"], 2);
//! assert_eq!(job_set["spec"]["replicatedJobs"][0]["template"]["spec"]["parallelism"], 16);
//! assert!(yaml(&objects).contains("cloud.google.com/gke-tpu-topology: 4x4x4"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod cluster;
mod cluster_job;
pub mod differences;
mod manifest;
mod yaml;

pub use cluster_job::{BucketMount, ClusterJob, ClusterJobError};
pub use manifest::{RunSecret, config_map_name, manifests, secret_name};
pub use yaml::yaml;
