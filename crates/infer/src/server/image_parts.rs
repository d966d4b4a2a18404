//! Images in messages, as OpenAI's API has them: parts with a `data:` URL.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::chat::Message;
use crate::error::Error;

/// Takes the images out of messages, in their order; templates then find `{"type": "image"}` in their places.
pub(crate) fn take_images(messages: &mut [Message]) -> Result<Vec<Vec<u8>>, Error> {
    let mut files = Vec::new();
    for part in messages.iter_mut().filter_map(|message| message.content.as_array_mut()).flatten() {
        if part.get("type").and_then(Value::as_str) != Some("image_url") {
            continue;
        }
        let url = part.get("image_url").and_then(|image| image.as_str().or_else(|| image.get("url")?.as_str()));
        files.push(bytes_of(url.unwrap_or(""))?);
        *part = json!({"type": "image"});
    }
    Ok(files)
}

/// The bytes of a `data:` URL. Others are refused: the server fetches nothing.
fn bytes_of(url: &str) -> Result<Vec<u8>, Error> {
    let refused =
        |why: &str| Error::setting(why, "give image_url as data:image/png;base64,... or data:image/jpeg;base64,...");
    let Some(rest) = url.strip_prefix("data:") else { return Err(refused("an image_url is no data URL")) };
    let Some((kind, data)) = rest.split_once(',') else { return Err(refused("a data URL of an image has no data")) };
    if !kind.starts_with("image/") || !kind.ends_with(";base64") {
        return Err(refused("a data URL of an image is no image in base64"));
    }
    STANDARD.decode(data.trim()).map_err(|_| refused("a data URL of an image is not base64"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_taken_in_their_order() {
        let message = |content: Value| Message { role: "user".into(), content, rest: serde_json::Map::new() };
        let image = |url: &str| json!({"type": "image_url", "image_url": {"url": url}});
        let mut messages = [
            message(json!("plain")),
            message(json!([image("data:image/png;base64,AQI="), {"type": "text", "text": "and"}])),
            message(json!([{"type": "image_url", "image_url": "data:image/jpeg;base64,Aw=="}])),
        ];
        assert_eq!(take_images(&mut messages).unwrap(), [vec![1, 2], vec![3]]);
        assert_eq!(messages[1].content, json!([{"type": "image"}, {"type": "text", "text": "and"}]));
        assert!(take_images(&mut messages).unwrap().is_empty());
        for url in [
            "https://a/b.png",
            "file:///etc/passwd",
            "data:image/png",
            "data:text/plain;base64,AQI=",
            "data:image/png;base64,*",
        ] {
            assert!(take_images(&mut [message(json!([image(url)]))]).is_err(), "{url}");
        }
    }
}
