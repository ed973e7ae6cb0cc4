//! The page in a browser, and the tools beside it: one server on this machine for what is shown of plans, what a person does
//! there, and `/mcp`. A view and nothing more: it carries nothing out, and its end changes nothing. *Every* request passes the one
//! gate of [`Gate`] before any other code sees it.

mod actions;
mod api_error;
mod assets;
mod bounded;
mod connections;
mod events;
mod gate;
mod plans;
mod routes;
mod state;
mod work;

pub use connections::serve;
pub use gate::{Gate, PublicUrl};
pub use routes::{page, tools};
pub use state::{Parts, WebState};

use self::api_error::{Answer, ApiError, ApiResult};
use self::bounded::{MOST, clip_texts, fit, prefix, size, take_rows};
use self::gate::{MAX_BODY, Pass};
use self::plans::{TASKS_OF_A_CHANGE, Wanted, no_task, task_id};
