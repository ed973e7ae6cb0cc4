//! The server: how it answers each request of the protocol. The tables of the dialects say which tools exist.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;

use hyper::header::USER_AGENT;
use hyper::http::request::Parts;
use parking_lot::{Mutex, MutexGuard};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomRequest,
    CustomResult, ErrorCode, GetPromptRequestParams, GetPromptResponse, GetPromptResult,
    Implementation, InitializeRequestParams, InitializeResult, ListPromptsResult,
    ListResourcesResult, ListToolsResult, MetaObject, PaginatedRequestParams, Prompt,
    PromptMessage, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, Resource,
    ResourceContents, ResourceUpdatedNotificationParam, Role, ServerCapabilities, ServerConfig,
    SubscribeRequestParams, SubscriptionFilter, ToolAnnotations, UnsubscribeRequestParams,
};
use rmcp::service::{RequestContext, ServerInitializeError, SubscriptionContext, serve_server};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Map, Value};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use super::line_transport::LineTransport;
use super::notifications::Announcer;
use super::progress::FOLLOWED;
use super::{next_step_text, progress};
use crate::plan::Plan;
use crate::plan_time::Clock;
use crate::store::StoreError;
use crate::tools::{Dialect, Tool, ToolAnswer, Toolbox, notebook};
use crate::view::mission;
use crate::volumes::Volumes;
use crate::wire::{clip_bytes, has_word, one_line};

/// The largest message, in bytes: enough for a plan with the most tasks that a tool accepts.
pub const MAX_MESSAGE: usize = 64 * 1024 * 1024;

/// The largest resource, in bytes.
const MAX_RESOURCE: usize = 14_500;

/// Open streams of changes, of all clients.
const MAX_LISTENERS: usize = 256;

/// The longest client name that the log keeps, in bytes.
const MAX_CALLER: usize = 60;

/// The client's name in the log when it gives none.
const NAMELESS: &str = "mcp";

const PLAN: &str = "plan://current";
const HINT: &str = "plan://hint";
/// Methods with parameters that may not fit.
const METHODS: &str =
    "tools/call prompts/get resources/read resources/subscribe resources/unsubscribe initialize";
const METHOD_OF_CALLS: &str = "tools/call";

const PROMPT: &str = "next";
/// Where the data of a notebook's answer are among its metadata, which no model sees.
const METADATA: &str = "plan-agent/metadata";
const MARKDOWN: &str = "text/markdown";

type Answer<T> = Result<T, ErrorData>;

type Context = RequestContext<RoleServer>;

/// Which part of a list is wanted: all lists are short here.
type Page = Option<PaginatedRequestParams>;

/// What the server serves.
#[derive(Debug)]
pub struct ServedTools {
    pub toolbox: Toolbox,
    pub dialects: Vec<Dialect>,
    pub volumes: Volumes,
    /// The name that a person types to call this program.
    pub program: String,
}

/// Serves the tools to one client.
#[derive(Debug)]
pub struct Server {
    shared: Arc<SharedState>,
    /// The calls of a client run one after the other, in their order.
    turn: tokio::sync::Mutex<()>,
    /// `None` if the server cannot reach the client later.
    session: Option<ClientSession>,
}

/// The state of a client while its streams are open.
#[derive(Debug)]
pub(super) struct ClientSession {
    /// The resources to which the client has subscribed, each with the task that tells of its changes. The task ends with it.
    subscribed: Mutex<HashMap<&'static str, JoinSet<()>>>,
    /// Becomes true at the end of the input.
    over: watch::Receiver<bool>,
}

/// The state that all clients share.
#[derive(Debug)]
pub(super) struct SharedState {
    pub(super) served: Arc<ServedTools>,
    clock: Clock,
    pub(super) announce: Announcer,
    listeners: Semaphore,
}

impl ServedTools {
    /// Serves a client on two streams until the input ends or `ended` resolves, and then returns the value of `ended`. Requests
    /// that came before are answered.
    ///
    /// # Errors
    /// The client does not begin as the protocol requires.
    pub async fn on_lines<T>(
        self,
        read: impl AsyncRead + Unpin + Send + 'static,
        write: impl AsyncWrite + Unpin + Send + 'static,
        ended: impl Future<Output = T>,
    ) -> Result<Option<T>, ServerInitializeError> {
        let (lines, over) = LineTransport::new(read, write);
        let subscribed = Mutex::default();
        let session = Some(ClientSession { subscribed, over });
        let server = Server::new(Arc::new(SharedState::new(self)), session);
        let mut ended = pin!(ended);
        let begun = tokio::select! {
            biased;
            end = &mut ended => return Ok(Some(end)),
            begun = serve_server(server, lines) => begun,
        };
        let running = match begun {
            Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(None),
            begun => begun?,
        };
        let stop = running.cancellation_token();
        let mut over = pin!(running.waiting());
        let end = tokio::select! {
            end = &mut ended => end,
            _ = &mut over => return Ok(None),
        };
        stop.cancel();
        drop(over.await);
        Ok(Some(end))
    }
}

impl SharedState {
    pub(super) fn new(served: ServedTools) -> Self {
        Self {
            served: Arc::new(served),
            announce: Mutex::default(),
            clock: Clock::start(),
            listeners: Semaphore::new(MAX_LISTENERS),
        }
    }

    /// Returns the plan as text.
    async fn page(&self) -> Answer<String> {
        let (now, served) = (self.clock.now(), Arc::clone(&self.served));
        let text = self.read_plan(move |plan| match plan {
            Some(plan) if is_notebook(Some(plan), &served.dialects) => {
                notebook::page_of(plan, MAX_RESOURCE)
            }
            Some(plan) => {
                let carried_out = served.volumes.daemon_of(plan.id()).is_some();
                mission::render(plan, carried_out, now, &served.program)
            }
            None => "There is no plan yet.\n".to_owned(),
        });
        Ok(clip_bytes(&text.await?, MAX_RESOURCE))
    }

    async fn hint(&self) -> Answer<String> {
        let served = Arc::clone(&self.served);
        self.read_plan(move |plan| match is_notebook(plan, &served.dialects) {
            true => notebook::hint_of(plan),
            false => next_step_text::next(plan),
        })
        .await
    }

    /// Reads the served plan.
    async fn read_plan<T: Send + 'static>(
        &self,
        look: impl FnOnce(Option<&Plan>) -> T + Send + 'static,
    ) -> Result<T, ErrorData> {
        let (toolbox, dialects) = (&self.served.toolbox, &self.served.dialects);
        let failed = |error: StoreError| ErrorData::internal_error(error.to_string(), None);
        match toolbox.latest(dialects).await.map_err(failed)? {
            Some(plan) => {
                let looked = toolbox.store().read(&plan, |plan, _| look(Some(plan)));
                looked.await.map_err(failed)
            }
            None => Ok(look(None)),
        }
    }
}

/// Returns whether a plan is shown as the notebook does. If the client has the tools of the dialect that made the plan, that
/// dialect decides; otherwise the dialects that the client has decide.
fn is_notebook(plan: Option<&Plan>, served: &[Dialect]) -> bool {
    let maker = plan.and_then(|plan| {
        let owner = plan.head().owner.as_str();
        served.iter().find(|dialect| dialect.as_str() == owner)
    });
    maker.map_or(served == [Dialect::Notebook], |maker| {
        *maker == Dialect::Notebook
    })
}

/// Returns the resource with that name.
fn known(uri: &str) -> Answer<&'static str> {
    let mut all = [PLAN, HINT].into_iter();
    all.find(|known| *known == uri).ok_or_else(|| {
        let uri = one_line(uri, 200);
        let message = format!("there is no resource `{uri}`; there are {PLAN} and {HINT}");
        ErrorData::resource_not_found(message, None)
    })
}

/// Describes a tool as the protocol does. No call destroys data: the log keeps what a call replaces or deletes.
fn describe(tool: &Tool) -> rmcp::model::Tool {
    let Value::Object(schema) = tool.schema() else {
        unreachable!("the schema of arguments is an object");
    };
    let annotations = match tool.changes {
        true => ToolAnnotations::new().destructive(false),
        false => ToolAnnotations::new().read_only(true),
    };
    let described = rmcp::model::Tool::new(tool.name, tool.description, Arc::new(schema));
    described.with_annotations(annotations.open_world(false))
}

/// Returns the answer of a tool as the protocol has it.
fn result_of(ToolAnswer { success, value }: ToolAnswer, dialect: Dialect) -> CallToolResult {
    // A text goes out once, and nothing as structured content: some clients pass both forms to the model, others only that one.
    let (text, beside) = match &value["result"] {
        // The text of the notebook is for the model; the data for a program goes alongside it.
        Value::String(prose) if dialect == Dialect::Notebook => {
            (prose.clone(), value.get("metadata"))
        }
        _ => (value.to_string(), None),
    };
    let content = vec![ContentBlock::text(text)];
    let mut result = match success {
        true => CallToolResult::success(content),
        false => CallToolResult::error(content),
    };
    result.meta = beside.map(|data| {
        let data = Map::from_iter([(METADATA.to_owned(), data.clone())]);
        MetaObject(data)
    });
    result
}

impl Server {
    /// Serves a client, or one request of a client that has no session and cannot be reached later.
    pub(super) fn new(shared: Arc<SharedState>, session: Option<ClientSession>) -> Self {
        Self {
            shared,
            turn: tokio::sync::Mutex::default(),
            session,
        }
    }

    /// Returns the name of the client for the log.
    fn caller(context: &Context) -> String {
        let name = match context.extensions.get::<Parts>() {
            None => context.client_info().map(|info| info.name),
            // Over HTTP each request stands alone: the request names the client, or the program that sends it is known.
            Some(parts) => {
                let product = || {
                    let agent = parts.headers.get(USER_AGENT)?.to_str().ok()?;
                    agent.split(['/', ' ']).next().map(str::to_owned)
                };
                let client = context.meta.client_info().map(|info| info.name);
                client.or_else(product)
            }
        };
        match one_line(&name.unwrap_or_default(), MAX_CALLER) {
            name if name.trim().is_empty() => NAMELESS.to_owned(),
            name => name,
        }
    }

    /// Calls a tool; the log names the client.
    async fn call(&self, context: &Context, name: &str, arguments: Value) -> CallToolResult {
        let _turn = self.turn.lock().await;
        let served = &self.shared.served;
        let Some(dialect) = Dialect::answering(&served.dialects, name) else {
            return CallToolResult::error(vec![ContentBlock::text("no tools are served")]);
        };
        let toolbox = served.toolbox.clone().with_caller(&Self::caller(context));
        result_of(toolbox.call(dialect, name, arguments).await, dialect)
    }

    fn subscriptions(&self) -> Option<MutexGuard<'_, HashMap<&'static str, JoinSet<()>>>> {
        Some(self.session.as_ref()?.subscribed.lock())
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_prompts()
            .enable_resources()
            .enable_resources_subscribe();
        let program = Implementation::new("plan-agent", env!("CARGO_PKG_VERSION"));
        ServerConfig::new(capabilities.build())
            .with_server_info(program.with_title("Plan"))
            .with_instructions(match *self.shared.served.dialects {
                [Dialect::Notebook] => {
                    "One plan that you, other agents and people work on together; it outlives this session. Keep its \
                     states true: set a subtask in_progress when you begin it, and finish it with its outcome when it is \
                     done."
                }
                [Dialect::Control] => {
                    "Plans that a daemon carries out. Hand a goal over, follow it, and answer what it asks, as far as the \
                     answer is yours to give; what is for a person, ask the person."
                }
                _ => {
                    "One plan that you, other agents and people work on together; it outlives this session. Keep its \
                     states true: set a task in progress when you begin it, and completed when it is done."
                }
            })
    }

    /// Only in the protocol versions that begin with this request does a client subscribe to a resource by a separate request,
    /// for which the server has to reach the client later.
    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: Context,
    ) -> Answer<InitializeResult> {
        context.peer.set_peer_info(request.clone());
        let mut info = self.negotiate_initialize(&request)?;
        if self.session.is_none()
            && let Some(resources) = &mut info.capabilities.resources
        {
            resources.subscribe = None;
        }
        Ok(info)
    }

    async fn list_tools(&self, _: Page, _: Context) -> Answer<ListToolsResult> {
        let dialects = self.shared.served.dialects.iter();
        let tools = dialects.flat_map(|dialect| dialect.tools()).map(describe);
        Ok(ListToolsResult::with_all_items(tools.collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: Context,
    ) -> Answer<CallToolResponse> {
        let arguments = request.arguments.map_or(Value::Null, Value::Object);
        if let (FOLLOWED, [Dialect::Control], Some(token)) = (
            &*request.name,
            &*self.shared.served.dialects,
            context.meta.get_progress_token(),
        ) {
            let followed = progress::follow(&self.shared.served, &context, token, arguments);
            return Ok(result_of(followed.await, Dialect::Control).into());
        }
        Ok(self.call(&context, &request.name, arguments).await.into())
    }

    /// Answers requests that the library does not read: requests with parameters of another form, and unknown requests.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: Context,
    ) -> Answer<CustomResult> {
        let method = one_line(&request.method, 80);
        let params = request.params.unwrap_or_default();
        match (request.method.as_str(), &params["name"]) {
            // Arguments of any form go to the tool, which says what is wrong with them or reads what they mean.
            (METHOD_OF_CALLS, Value::String(name)) => {
                let result = self.call(&context, name, params["arguments"].clone()).await;
                let result = serde_json::to_value(result);
                let result = result.map_err(|e| ErrorData::internal_error(e.to_string(), None))?;
                Ok(CustomResult::new(result))
            }
            (known, _) if has_word(METHODS, known) => {
                let message = format!("the parameters do not fit `{method}`");
                Err(ErrorData::invalid_params(message, None))
            }
            _ => {
                let message = format!("there is no method `{method}`");
                Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, message, None))
            }
        }
    }

    async fn list_prompts(&self, _: Page, _: Context) -> Answer<ListPromptsResult> {
        let next = Prompt::new(PROMPT, Some("What to do next in the plan"), None);
        Ok(ListPromptsResult::with_all_items(vec![next]))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: Context,
    ) -> Answer<GetPromptResponse> {
        if request.name != PROMPT {
            let name = one_line(&request.name, 80);
            let message = format!("there is no prompt `{name}`; there is `{PROMPT}`");
            return Err(ErrorData::invalid_params(message, None));
        }
        let message = PromptMessage::new_text(Role::User, self.shared.hint().await?);
        Ok(GetPromptResult::new(vec![message]).into())
    }

    async fn list_resources(&self, _: Page, _: Context) -> Answer<ListResourcesResult> {
        let resource = |uri, name, description| {
            let resource = Resource::new(uri, name).with_description(description);
            resource.with_mime_type(MARKDOWN)
        };
        Ok(ListResourcesResult::with_all_items(vec![
            resource(PLAN, "plan", "The current plan"),
            resource(HINT, "hint", "What to do next in it"),
        ]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: Context,
    ) -> Answer<ReadResourceResponse> {
        let text = match known(&request.uri)? {
            HINT => self.shared.hint().await?,
            _ => self.shared.page().await?,
        };
        let contents = ResourceContents::text(text, request.uri).with_mime_type(MARKDOWN);
        Ok(ReadResourceResult::new(vec![contents]).into())
    }

    async fn subscribe(&self, request: SubscribeRequestParams, context: Context) -> Answer<()> {
        let uri = known(&request.uri)?;
        let mut notifications = self.shared.listen().await;
        let Some(mut subscribed) = self.subscriptions() else {
            let message = "this server keeps no sessions: `subscriptions/listen` tells of changes";
            return Err(ErrorData::invalid_request(message, None));
        };
        let mut task = JoinSet::new();
        task.spawn(async move {
            while notifications.changed().await.is_ok() {
                let update = ResourceUpdatedNotificationParam::new(uri);
                if context.peer.notify_resource_updated(update).await.is_err() {
                    return;
                }
            }
        });
        drop(subscribed.insert(uri, task));
        Ok(())
    }

    async fn unsubscribe(&self, request: UnsubscribeRequestParams, _: Context) -> Answer<()> {
        let uri = known(&request.uri)?;
        drop(self.subscriptions().and_then(|mut all| all.remove(uri)));
        Ok(())
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        let uris = requested.resource_subscriptions.iter().flatten();
        let known: Vec<_> = uris.filter(|uri| known(uri).is_ok()).cloned().collect();
        let accepted = SubscriptionFilter::builder().resource_subscriptions(known);
        Some(accepted.build())
    }

    async fn listen(&self, context: SubscriptionContext) -> Answer<()> {
        let Ok(_place) = self.shared.listeners.try_acquire() else {
            let message = format!("{MAX_LISTENERS} streams of news are open; end one first");
            return Err(ErrorData::invalid_request(message, None));
        };
        let over = self.session.as_ref().map(|session| session.over.clone());
        let ended = async move {
            match over {
                // If the other side is gone, the stream ends, too.
                Some(mut over) => drop(over.wait_for(|over| *over).await),
                None => std::future::pending().await,
            }
        };
        let mut notifications = self.shared.listen().await;
        // The client got its confirmation before this loop began: changes in between are reported now.
        notifications.mark_changed();
        let uris = context.accepted().resource_subscriptions.clone();
        let tell = async {
            while notifications.changed().await.is_ok() {
                for uri in uris.iter().flatten() {
                    if context.sink().notify_resource_updated(uri).await.is_err() {
                        return;
                    }
                }
            }
        };
        // A report that is being sent when the client disconnects is of no use, and the client may never read it.
        tokio::select! {
            () = context.cancelled() => {}
            () = ended => {}
            () = tell => {}
        }
        Ok(())
    }
}
