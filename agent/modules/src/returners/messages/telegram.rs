//! The returner `telegram`: sends returns to a chat.

use state::exec::Exec;
use state::module::Error;
use value::{Map, python};

use super::super::{Returner, web};
use super::{call, report, returned};

pub(in super::super) const RETURNER: Returner = Returner {
    name: NAME,
    doc: "Send the return to a chat of Telegram.",
    store: returner,
};

const NAME: &str = "telegram";

fn returner(cx: &Exec, ret: &Map) -> Result<(), Error> {
    let kwargs = Map::new()
        .with("message", report(ret, &python::str(&returned(ret))))
        .with("chat_id", web::needed(cx, ret, NAME, "chat_id")?)
        .with("token", web::needed_secret(cx, ret, NAME, "token")?);
    call(cx, "telegram.post_message", kwargs)
}
