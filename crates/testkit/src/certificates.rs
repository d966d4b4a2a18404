//! Certificates for servers of tests, made by `openssl`.

use std::path::Path;
use std::process::Command;

/// Writes an authority (`ca.pem`), a certificate of a server at an IP address (`server.pem`, `server.key`), one of a client
/// (`client.pem`, `client.key`), and an authority that signed neither (`other.pem`).
pub fn make_certificates(folder: &Path, ip: &str) {
    let openssl = |args: &[&str]| {
        let ran = Command::new("openssl").args(args).current_dir(folder).output().unwrap();
        assert!(ran.status.success(), "{args:?}: {}", String::from_utf8_lossy(&ran.stderr));
    };
    let key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
    for name in ["ca", "other"] {
        let (file, to, subject) = (format!("{name}.key"), format!("{name}.pem"), format!("/CN={name}"));
        let args = ["-keyout", &file, "-out", &to, "-subj", &subject, "-days", "3650"];
        openssl(&[&["req", "-x509"][..], &key, &args].concat());
    }
    // etcd's gateway is a client of its own server, so that certificate is for both.
    let server = format!("subjectAltName=IP:{ip}\nextendedKeyUsage=serverAuth,clientAuth\n");
    std::fs::write(folder.join("server.ext"), server).unwrap();
    std::fs::write(folder.join("client.ext"), "extendedKeyUsage=clientAuth\n").unwrap();
    for name in ["server", "client"] {
        let of = |ending: &str| format!("{name}.{ending}");
        openssl(&[&["req"][..], &key, &["-keyout", &of("key"), "-out", &of("csr"), "-subj", "/O=test"]].concat());
        let by = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "3650"];
        let files = ["-in", &of("csr"), "-extfile", &of("ext"), "-out", &of("pem")];
        openssl(&[&["x509", "-req"][..], &by, &files].concat());
    }
}
