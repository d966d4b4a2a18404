//! A browser that a test drives: Chromium, over the pipe of its debugging protocol.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(120);

/// A browser with one page. It ends with this value.
pub(crate) struct Browser {
    child: Child,
    to: ChildStdin,
    from: Receiver<Value>,
    next: u64,
    session: Option<String>,
    /// What the page complained of.
    pub(crate) complaints: Vec<String>,
}

impl Browser {
    /// Starts it; its files go into a folder.
    pub(crate) fn start(chromium: &Path, folder: &Path) -> Browser {
        // The protocol is spoken over descriptors 3 and 4.
        let mut command = Command::new("sh");
        command.args(["-c", "exec 3<&0 4>&1 </dev/null >/dev/null; exec \"$0\" \"$@\""]).arg(chromium);
        command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]);
        command.args(["--remote-debugging-pipe", "--force-device-scale-factor=1", "--hide-scrollbars", "about:blank"]);
        command.arg(format!("--user-data-dir={}", folder.join("profile").display())).env("HOME", folder);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let (sender, from) = channel();
        let mut messages = BufReader::new(child.stdout.take().unwrap()).split(0);
        std::thread::spawn(move || {
            for message in messages.by_ref().map_while(Result::ok) {
                let Ok(message) = serde_json::from_slice(&message) else { continue };
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let to = child.stdin.take().unwrap();
        let mut browser = Browser { child, to, from, next: 0, session: None, complaints: Vec::new() };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }))["targetId"].clone();
        let attached = browser.call("Target.attachToTarget", json!({ "targetId": target, "flatten": true }));
        browser.session = Some(attached["sessionId"].as_str().unwrap().to_string());
        for domain in ["Page", "Runtime", "Log", "Accessibility"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Calls a method of the protocol.
    #[track_caller]
    pub(crate) fn call(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let mut message = json!({ "id": self.next, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        self.to.write_all(format!("{message}\0").as_bytes()).unwrap();
        loop {
            let answer = self.from.recv_timeout(PATIENCE).unwrap_or_else(|error| panic!("{method}: {error}"));
            self.hear(&answer);
            if answer["id"] == self.next {
                assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
                return answer["result"].clone();
            }
        }
    }

    fn hear(&mut self, message: &Value) {
        let complaint = match message["method"].as_str() {
            Some("Runtime.exceptionThrown") => Some(&message["params"]["exceptionDetails"]),
            Some("Runtime.consoleAPICalled") => Some(&message["params"]["args"]),
            Some("Log.entryAdded") => Some(&message["params"]["entry"]),
            _ => None,
        };
        self.complaints.extend(complaint.map(Value::to_string));
    }

    /// Opens a page in a window of a size.
    pub(crate) fn open(&mut self, url: &str, width: u32, height: u32) {
        self.resize(width, height);
        self.call("Page.navigate", json!({ "url": url }));
        self.wait_for("the page", "document.readyState === 'complete' && location.protocol === 'http:'");
    }

    /// Gives the window a size.
    pub(crate) fn resize(&mut self, width: u32, height: u32) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", size);
    }

    /// The value of an expression in the page.
    #[track_caller]
    pub(crate) fn eval(&mut self, script: &str) -> Value {
        let params = json!({ "expression": script, "returnByValue": true, "awaitPromise": true });
        let answer = self.call("Runtime.evaluate", params);
        assert!(answer["exceptionDetails"].is_null(), "{script}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Waits until an expression is true.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, what: &str, script: &str) {
        let started = std::time::Instant::now();
        while self.eval(&format!("Boolean({script})")) != true {
            if started.elapsed() > PATIENCE {
                let page = self.eval("document.body.innerText");
                panic!("waited in vain for {what}\n{}\n{:?}", page.as_str().unwrap_or_default(), self.complaints);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Presses a key.
    pub(crate) fn press(&mut self, key: &str) {
        let (code, number, text) = match key {
            "Tab" => ("Tab", 9, ""),
            "Enter" => ("Enter", 13, "\r"),
            " " => ("Space", 32, " "),
            "End" => ("End", 35, ""),
            "Home" => ("Home", 36, ""),
            "ArrowLeft" => ("ArrowLeft", 37, ""),
            "ArrowRight" => ("ArrowRight", 39, ""),
            other => panic!("no key {other}"),
        };
        let mut params = json!({ "type": "keyDown", "key": key, "code": code, "windowsVirtualKeyCode": number });
        if !text.is_empty() {
            params["text"] = text.into();
        }
        self.call("Input.dispatchKeyEvent", params.clone());
        params["type"] = "keyUp".into();
        self.call("Input.dispatchKeyEvent", params);
    }

    /// Nodes of the accessibility tree that are not left out of it: role, name, and whether they take the focus.
    pub(crate) fn accessible(&mut self) -> Vec<(String, String, bool)> {
        let tree = self.call("Accessibility.getFullAXTree", json!({}));
        let nodes = tree["nodes"].as_array().unwrap().iter().filter(|node| node["ignored"] != true);
        let text = |value: &Value| value["value"].as_str().unwrap_or_default().to_string();
        let takes_focus = |node: &Value| {
            let properties = node["properties"].as_array().into_iter().flatten();
            properties.into_iter().any(|one| one["name"] == "focusable" && one["value"]["value"] == true)
        };
        nodes.map(|node| (text(&node["role"]), text(&node["name"]), takes_focus(node))).collect()
    }

    /// A picture of the window, as PNG.
    pub(crate) fn screenshot(&mut self) -> Vec<u8> {
        let answer = self.call("Page.captureScreenshot", json!({ "format": "png", "optimizeForSpeed": false }));
        base64(answer["data"].as_str().unwrap())
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn base64(text: &str) -> Vec<u8> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let (mut bits, mut held, mut bytes) = (0u32, 0, Vec::new());
    for value in text.bytes().filter_map(digit) {
        bits = (bits << 6) | u32::from(value);
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
        }
    }
    bytes
}
