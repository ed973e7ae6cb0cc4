//! The models over real HTTP: both API shapes, every way in which an exchange can fail, and where the key appears.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use plan_agent::config::{Api, Config, LlmConfig, ModelEndpoint, ServiceUrl};
use plan_agent::llm::questions::{self, PlanContext};
use plan_agent::llm::{
    Answered, BoxFuture, Fault, HttpModel, LanguageModel, LlmError, Model, ModelReply, Prompts,
    Request, Schema, TypedQuestion,
};
use plan_agent::plan::{ModelCost, PlanSpec};
use secrecy::SecretString;
use serde_json::{Value, json};

use crate::common::env::{has, lacks};
use crate::common::llm::{Answer, LlmServer, SILENT, THINKS, Then};

const CANARY: &str = "sk-canary-0123456789";

const APIS: [Api; 2] = [Api::Anthropic, Api::OpenAi];

const TIMEOUT: Duration = Duration::from_secs(20);

fn endpoint(server: &LlmServer, api: Api) -> ModelEndpoint {
    ModelEndpoint {
        api,
        base_url: ServiceUrl::parse(&match api {
            Api::Anthropic => server.url(),
            Api::OpenAi => server.openai_url(),
        })
        .unwrap(),
        url_variable: None,
        key: Some(SecretString::from(CANARY)),
        key_variable: String::new(),
    }
}

fn model(endpoint: &ModelEndpoint) -> Arc<dyn LanguageModel> {
    Arc::new(HttpModel::new(endpoint, "test-model", TIMEOUT).unwrap())
}

fn request() -> Request {
    Request {
        system: "the system part".to_owned(),
        prompt: "the prompt".to_owned(),
        schema_name: "plan".to_owned(),
        schema: Schema::Object(vec![("tasks", Schema::list(Schema::Integer))]),
        max_tokens: 100,
    }
}

/// Makes one exchange with a server that gives this answer.
async fn exchange(api: Api, answer: Answer) -> Result<ModelReply, LlmError> {
    let server = LlmServer::replying(vec![answer]);
    let outcome = model(&endpoint(&server, api)).exchange(&request()).await;
    drop(server);
    outcome
}

fn a_plan() -> Value {
    json!({"name": "Hello", "description": "Says hello.", "tasks": [
        {"reasoning": "", "name": "Write it", "description": "Write hello.py", "constraints": "",
         "expected_output": "hello.py prints hello", "depends_on": []},
    ]})
}

fn question() -> TypedQuestion<PlanSpec> {
    let context = PlanContext {
        goal: "say hello",
        ..PlanContext::default()
    };
    let prompts = Prompts::load(None).unwrap();
    questions::plan(&context).render(&prompts).unwrap()
}

fn hasty() -> LlmConfig {
    LlmConfig {
        tries: 3,
        retry_delay: Duration::from_millis(1),
        ..Config::default().llm
    }
}

/// Returns the calls, and the tokens read and written.
fn spent(spent: &ModelCost) -> (u32, u64, u64) {
    (spent.calls, spent.input_tokens, spent.output_tokens)
}

/// Asks for a plan from a server that gives these answers, one after the other.
async fn ask(
    answers: Vec<Answer>,
    config: &LlmConfig,
) -> (LlmServer, Result<Answered<PlanSpec>, LlmError>) {
    let server = LlmServer::replying(answers);
    let llm = model(&endpoint(&server, Api::OpenAi));
    let outcome = ask_counting(&Model::new(llm, config), &question()).await;
    (server, outcome)
}

/// Asks a question. The outcome has the cost of all exchanges.
async fn ask_counting<A>(
    model: &Model,
    question: &TypedQuestion<A>,
) -> Result<Answered<A>, LlmError> {
    let kept = Mutex::new(ModelCost::default());
    let keep = |spent: ModelCost| {
        // Each exchange is kept by itself, before the next one.
        assert_eq!(spent.calls, 1);
        kept.lock().unwrap().add(spent);
        Box::pin(async {}) as BoxFuture<'_, _>
    };
    let mut outcome = model.ask(question, &keep).await;
    let spent = match &mut outcome {
        Ok(answered) => &mut answered.spent,
        Err(error) => &mut error.spent,
    };
    assert_eq!(spent.calls, 1);
    spent.add(*kept.lock().unwrap());
    outcome
}

#[tokio::test]
async fn request_has_shape_of_its_api() {
    for api in APIS {
        let server = LlmServer::replying(vec![Answer::Json(json!({"a": 1}))]);
        let reply = model(&endpoint(&server, api))
            .exchange(&request())
            .await
            .unwrap();
        let expected = ModelReply {
            text: r#"{"a":1}"#.to_owned(),
            spent: ModelCost {
                input_tokens: 11,
                output_tokens: 5,
                ..ModelCost::default()
            },
        };
        assert_eq!(reply, expected, "{api:?}");
        let asked = server.asked().remove(0);
        assert_eq!(asked.kind, "plan");
        assert_eq!(asked.header("content-type"), Some("application/json"));
        let program = asked.header("user-agent").unwrap();
        assert!(program.starts_with("plan-agent/"), "{program}");
        let body = asked.body;
        match api {
            Api::Anthropic => {
                assert_eq!(asked.path, "/v1/messages");
                let with_key = asked.headers.iter().filter(|(_, value)| value == CANARY);
                assert_eq!(with_key.count(), 1);
                insta::assert_snapshot!(body, @r#"{"max_tokens":100,"messages":[{"content":"the prompt","role":"user"}],"model":"test-model","output_config":{"format":{"schema":{"additionalProperties":false,"properties":{"tasks":{"items":{"type":"integer"},"type":"array"}},"required":["tasks"],"type":"object"},"type":"json_schema"}},"stream":true,"system":[{"cache_control":{"type":"ephemeral"},"text":"the system part","type":"text"}]}"#);
            }
            Api::OpenAi => {
                assert_eq!(asked.path, "/v1/chat/completions");
                insta::assert_snapshot!(body, @r#"{"max_tokens":100,"messages":[{"content":"the system part","role":"system"},{"content":"the prompt","role":"user"}],"model":"test-model","response_format":{"json_schema":{"name":"plan","schema":{"additionalProperties":false,"properties":{"tasks":{"items":{"type":"integer"},"type":"array"}},"required":["tasks"],"type":"object"},"strict":true},"type":"json_schema"},"stream":true,"stream_options":{"include_usage":true},"temperature":0.2}"#);
            }
        }
    }
}

#[tokio::test]
async fn each_api_sends_key_in_its_header() {
    for (api, header, value) in [
        (Api::Anthropic, "x-api-key", CANARY.to_owned()),
        (Api::OpenAi, "authorization", format!("Bearer {CANARY}")),
    ] {
        let server = LlmServer::replying(vec![Answer::Text("hi".to_owned())]);
        let with_line_break = ModelEndpoint {
            key: Some(SecretString::from(format!("{CANARY}\n"))),
            ..endpoint(&server, api)
        };
        let without = ModelEndpoint {
            key: None,
            ..endpoint(&server, api)
        };
        for endpoint in [with_line_break, without] {
            model(&endpoint).exchange(&request()).await.unwrap();
        }
        let asked = server.asked();
        assert_eq!(asked[0].header(header), Some(value.as_str()));
        assert_eq!(asked[1].header(header), None);
    }
}

#[tokio::test]
async fn accepts_answer_in_tool_call() {
    let reply = exchange(Api::Anthropic, Answer::ToolCall(json!({"a": 1}))).await;
    assert_eq!(reply.unwrap().text, r#"{"a":1}"#);
}

#[tokio::test]
async fn every_llm_fault_is_classified() {
    let raw = |body: &str| Answer::Raw(body.to_owned());
    let cases = [
        (Answer::error(500, "x"), "Unavailable { status: 500,", true),
        (Answer::error(529, "x"), "Unavailable {", true),
        (Answer::error(503, "Loading model"), "Unavailable {", true),
        (
            Answer::busy(429, "7"),
            "Unavailable { status: 429, message: \"slow down\", retry_after: Some(7s) }",
            true,
        ),
        (
            Answer::Status(502, None, "<html>bad gateway".to_owned()),
            "Unavailable {",
            true,
        ),
        (Answer::error(401, "x"), "Unauthorised {", false),
        (Answer::error(403, "x"), "Unauthorised {", false),
        (
            Answer::error(404, "no such model"),
            "Rejected { status: 404,",
            false,
        ),
        (Answer::error(400, "x"), "Rejected {", false),
        (
            Answer::error(402, "Insufficient Balance"),
            "Rejected {",
            false,
        ),
        (
            Answer::Redirect("http://127.0.0.1:1/".to_owned()),
            "Redirected(302)",
            false,
        ),
        (Answer::Html, "NotJson(", true),
        (raw("{\"choices\": ["), "NotJson(", true),
        (raw("{}"), "Unexpected(", true),
        (raw("[1]"), "Unexpected(", true),
        (raw("null"), "Unexpected(", true),
        (
            raw(r#"{"choices": [], "content": []}"#),
            "Unexpected(",
            true,
        ),
        (
            raw(r#"{"error": {"message": "busy", "code": 503}}"#),
            "Unavailable { status: 503,",
            true,
        ),
        (raw(r#"{"error": "no"}"#), "Unavailable {", true),
        (Answer::Text(" \n".to_owned()), "Unexpected(", true),
        (Answer::CutBody, "CutBody(", true),
        (Answer::Begun(Then::Close), "CutBody(", true),
        (Answer::Begun(Then::Fails), "Unavailable {", true),
        (Answer::Begun(Then::Garbage), "Unexpected(", true),
        (Answer::Begun(Then::Floods), "TooLarge(", false),
        (Answer::Close, "Unreachable(", true),
        (Answer::Endless, "TooLarge(", false),
        (
            Answer::Cut("{\"a\": ".to_owned()),
            "CutAnswer { max_tokens: 100, tokens: 5 }",
            false,
        ),
        (
            Answer::Refused("I will not".to_owned()),
            "Refused(\"I will not\")",
            false,
        ),
    ];
    for (answer, expected, retried) in cases {
        for api in APIS {
            let error = exchange(api, answer.clone()).await.unwrap_err();
            let fault = format!("{:?}", error.fault);
            assert!(fault.starts_with(expected), "{api:?} {answer:?}: {error:?}");
            assert_eq!(error.retryable(), retried, "{api:?} {answer:?}");
            if let Fault::Rejected { status, .. } = error.fault {
                let hint = match status {
                    402 => "look at your account",
                    404 => "`[llm] base_url`",
                    _ => "check `[llm] model`;",
                };
                has(error.hint(), hint);
            }
            if matches!(answer, Answer::Cut(_) | Answer::Refused(_)) {
                assert_eq!(spent(&error.spent), (0, 11, 5));
            }
            // The other API tells its tokens at the end.
            if matches!((&answer, api), (Answer::Begun(Then::Close), Api::Anthropic)) {
                assert_eq!(spent(&error.spent).1, 11);
            }
            assert!(!error.hint().is_empty());
            let model = "model `test-model` at `http://127.0.0.1:";
            assert!(error.to_string().starts_with(model), "{error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn silent_llm_server_times_out() {
    let hangs = [Answer::Hang, Answer::HangInBody, Answer::Begun(Then::Hang)];
    // What only shows that the server lives is silence, too.
    let lives = SILENT.map(|events| Answer::Begun(Then::Repeats(events)));
    for answer in hangs.into_iter().chain(lives) {
        for api in APIS {
            let server = LlmServer::replying(vec![answer.clone()]);
            let endpoint = endpoint(&server, api);
            let hasty =
                HttpModel::new(&endpoint, "test-model", Duration::from_millis(300)).unwrap();
            let error = hasty.exchange(&request()).await.unwrap_err();
            let fault = format!("{:?}", error.fault);
            assert!(fault.starts_with("TimedOut"), "{api:?} {answer:?}: {fault}");
            assert!(error.retryable());
            assert!(matches!(answer, Answer::Begun(Then::Repeats(_))) || server.client_left());
        }
    }
}

/// Five pauses, each shorter than the longest silence, and longer than it together.
#[tokio::test]
async fn silence_is_limited_not_length() {
    for api in APIS {
        let server = LlmServer::replying(vec![Answer::Begun(Then::Crawls)]);
        let endpoint = endpoint(&server, api);
        let silence = Duration::from_secs(2);
        let model = HttpModel::new(&endpoint, "test-model", silence).unwrap();
        let begun = std::time::Instant::now();
        let reply = model.exchange(&request()).await.unwrap();
        assert_eq!(reply.text, r#"{"a": 1, "b": 2}"#);
        assert!(begun.elapsed() > silence);
    }
}

/// Thoughts are no silence, but they have an end.
#[tokio::test]
async fn thoughts_that_repeat_themselves_are_ended() {
    for api in APIS {
        let server = LlmServer::replying(vec![Answer::Begun(Then::Repeats(THINKS))]);
        let endpoint = endpoint(&server, api);
        let silence = Duration::from_secs(2);
        let model = HttpModel::new(&endpoint, "test-model", silence).unwrap();
        let begun = std::time::Instant::now();
        let error = model.exchange(&request()).await.unwrap_err();
        assert_eq!(error.fault, Fault::Endless);
        assert!(error.spent.output_tokens >= 1_000, "{error:?}");
        assert!(begun.elapsed() > silence);
    }
}

#[tokio::test]
async fn odd_usage_loses_no_answer() {
    let hi = r#"[{"message": {"content": "hi"}, "finish_reason": "stop"}]"#;
    let block = r#"[{"type": "text", "text": "hi"}]"#;
    for (usage, read, written, cost) in [
        (
            r#"{"prompt_tokens": 1000.0, "completion_tokens": "100"}"#,
            1000,
            100,
            0.0,
        ),
        (
            r#"{"prompt_tokens": -1, "completion_tokens": null, "cost": "x"}"#,
            0,
            0,
            0.0,
        ),
        (
            r#"{"prompt_tokens": 1.5, "completion_tokens": 7, "cost": 0.25}"#,
            0,
            7,
            0.25,
        ),
        (
            r#"{"input_tokens": [], "output_tokens": 1e30, "cost": -5}"#,
            0,
            0,
            0.0,
        ),
        (
            r#"{"input_tokens": 7.0, "cache_read_input_tokens": "4", "output_tokens": 5}"#,
            11,
            5,
            0.0,
        ),
        (r#""many""#, 0, 0, 0.0),
        ("null", 0, 0, 0.0),
        ("[1]", 0, 0, 0.0),
    ] {
        let whole = format!(
            r#"{{"choices": {hi}, "content": {block}, "stop_reason": "end_turn", "usage": {usage}}}"#
        );
        let start = format!(r#"{{"content": {block}, "usage": {usage}}}"#);
        let messages = format!(
            "data: {{\"type\": \"message_start\", \"message\": {start}}}\n\n\
             data: {{\"type\": \"message_delta\", \"delta\": {{\"stop_reason\": \"end_turn\"}}, \"usage\": {usage}}}\n\n"
        );
        let chat = format!(
            "data: {{\"choices\": {hi}}}\n\ndata: {{\"choices\": [], \"usage\": {usage}}}\n\ndata: [DONE]\n\n"
        );
        for (api, answer) in [
            (Api::Anthropic, Answer::Raw(whole.clone())),
            (Api::OpenAi, Answer::Raw(whole)),
            (Api::Anthropic, Answer::Events(messages)),
            (Api::OpenAi, Answer::Events(chat)),
        ] {
            let reply = exchange(api, answer.clone()).await.unwrap();
            let expected = ModelReply {
                text: "hi".to_owned(),
                spent: ModelCost::new(read, written, cost),
            };
            assert_eq!(reply, expected, "{answer:?}");
        }
    }
    // No JSON has such a number.
    let events = format!(
        "data: {{\"choices\": {hi}}}\n\ndata: {{\"choices\": [], \"usage\": {{\"cost\": NaN}}}}\n\n"
    );
    let reply = exchange(Api::OpenAi, Answer::Events(events)).await.unwrap();
    assert_eq!(reply.text, "hi");
}

#[tokio::test]
async fn event_that_is_no_object_is_an_error() {
    for (api, event) in APIS
        .into_iter()
        .flat_map(|api| [(api, "[1]"), (api, "\"x\"")])
    {
        let outcome = exchange(api, Answer::Events(format!("data: {event}\n\n"))).await;
        assert!(outcome.unwrap_err().retryable(), "{api:?} {event}");
    }
}

#[tokio::test]
async fn server_that_streams_nothing_is_read() {
    for api in APIS {
        let reply = exchange(api, Answer::Whole(json!({"a": 1}))).await.unwrap();
        let read = (&*reply.text, spent(&reply.spent));
        assert_eq!(read, (r#"{"a":1}"#, (0, 11, 5)), "{api:?}");
    }
}

#[tokio::test]
async fn stream_is_left_out_for_servers_that_refuse_it() {
    for (api, refused, complaint) in [
        (
            Api::OpenAi,
            "stream_options",
            "stream_options: Extra inputs are not permitted",
        ),
        (
            Api::OpenAi,
            "stream",
            "Your organization must be verified to stream this model.",
        ),
        (Api::Anthropic, "stream", "`stream` is not supported"),
    ] {
        let server = LlmServer::start(move |asked| match asked.body.get(refused) {
            None | Some(Value::Bool(false)) => Answer::Json(json!({"a": 1})),
            Some(_) => Answer::error(400, complaint),
        });
        let llm = model(&endpoint(&server, api));
        for _ in 0..2 {
            assert_eq!(llm.exchange(&request()).await.unwrap().text, r#"{"a":1}"#);
        }
        assert_eq!(server.asked().len(), 3, "{api:?} {refused}");
    }
}

#[tokio::test]
async fn slow_llm_server_is_awaited() {
    let slow = Answer::Slow(
        Duration::from_millis(20),
        Box::new(Answer::Text("hi".to_owned())),
    );
    assert_eq!(exchange(Api::OpenAi, slow).await.unwrap().text, "hi");
}

#[tokio::test]
async fn closed_port_is_unreachable() {
    let server = LlmServer::replying(vec![Answer::Hang]);
    let endpoint = endpoint(&server, Api::OpenAi);
    drop(server);
    // The listener closes a moment after the drop; a client that connects in the meantime is cut off.
    let error = model(&endpoint).exchange(&request()).await.unwrap_err();
    assert!(matches!(error.fault, Fault::Unreachable(_)), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn dropped_ask_closes_connection() {
    let server = LlmServer::replying(vec![Answer::Hang]);
    let model = Model::new(model(&endpoint(&server, Api::OpenAi)), &hasty());
    let question = question();
    let asking = tokio::spawn(async move { ask_counting(&model, &question).await });
    assert!(server.is_asked());
    asking.abort();
    assert!(asking.await.unwrap_err().is_cancelled());
    assert!(server.client_left());
}

#[tokio::test]
async fn llm_client_follows_no_redirect() {
    for api in APIS {
        let elsewhere = LlmServer::replying(vec![Answer::Json(a_plan())]);
        let server = LlmServer::replying(vec![Answer::Redirect(elsewhere.url())]);
        model(&endpoint(&server, api))
            .exchange(&request())
            .await
            .unwrap_err();
        assert_eq!(server.asked().len(), 1);
        assert_eq!(elsewhere.asked().len(), 0);
    }
}

/// Collects the log output.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn key_appears_in_no_error_or_log() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    // It is set for all threads: a scoped subscriber misses what another thread logs first, and then misses the same message
    // here, too.
    tracing::subscriber::set_global_default(subscriber).unwrap();

    let echo = format!("your key {CANARY} is {CANARY}");
    for api in APIS {
        for answer in [
            Answer::error(401, &echo),
            Answer::error(400, &echo),
            Answer::error(500, &echo),
            Answer::Status(401, None, echo.clone()),
            Answer::Status(401, None, format!("{}{echo}", " \n".repeat(5_000))),
            Answer::Status(500, None, format!("{}{CANARY}", "x".repeat(290))),
            Answer::Raw(echo.clone()),
            Answer::Raw(format!(
                r#"{{"choices": "{CANARY}", "content": "{CANARY}"}}"#
            )),
            Answer::Refused(echo.clone()),
            Answer::Text(echo.clone()),
            Answer::CutBody,
        ] {
            let server = LlmServer::replying(vec![answer]);
            let endpoint = endpoint(&server, api);
            let shown = format!("{:?}", HttpModel::new(&endpoint, "m", TIMEOUT).unwrap());
            let llm = model(&endpoint);
            let exchanged = match llm.exchange(&request()).await {
                Ok(reply) => format!("{reply:?}"),
                Err(error) => format!("{error} {error:?} {}", error.hint()),
            };
            let asked = ask_counting(&Model::new(llm, &hasty()), &question()).await;
            let error = asked.unwrap_err();
            let asked = format!("{error} {error:?} {}", error.hint());
            let seen = [shown, exchanged, asked].join("\n");
            lacks(&seen, ["sk-canary", CANARY]);
        }
    }
    let log = String::from_utf8_lossy(&log.0.lock().unwrap()).into_owned();
    // The log is captured.
    assert!(log.contains("asking the model again"));
    lacks(&log, CANARY);
}

#[tokio::test]
async fn replies_mask_long_keys_and_errors_mask_all() {
    let short = "test";
    let long = "sk-canary-0123456789";
    assert_eq!(long.len(), 20);
    for api in APIS {
        let exchange = async |key: &str, answer: Answer| {
            let server = LlmServer::replying(vec![answer]);
            let endpoint = ModelEndpoint {
                key: Some(SecretString::from(key)),
                ..endpoint(&server, api)
            };
            match model(&endpoint).exchange(&request()).await {
                Ok(reply) => reply.text,
                Err(error) => error.to_string(),
            }
        };
        for (key, said, read) in [
            (
                short,
                "run pytest, then test it",
                "run pytest, then test it",
            ),
            (&long[..19], "sk-canary-012345678", "sk-canary-012345678"),
            (long, "use sk-canary-0123456789!", "use [key]!"),
            // As JSON within the answer may write it.
            (long, r"use sk\u002Dcanary\-0123456789!", "use [key]!"),
        ] {
            let text = exchange(key, Answer::Text(said.to_owned())).await;
            assert_eq!(text, read, "{api:?}: {key}");
            // A refusal is in the model's words, too.
            let refused = exchange(key, Answer::Refused(said.to_owned())).await;
            has(&refused, format!("refused to answer: {read}"));
        }
        for key in [short, long] {
            let echo = format!("the key `{key}` is wrong");
            for answer in [
                Answer::error(401, &echo),
                Answer::error(500, &echo),
                Answer::Status(400, None, echo.clone()),
                Answer::Raw(echo.clone()),
                Answer::Raw(format!(r#"{{"choices": "{key}", "content": "{key}"}}"#)),
            ] {
                let said = exchange(key, answer).await.replace("test-model", "");
                has(&said, "[key]");
                lacks(&said, key);
            }
        }
    }
}

#[tokio::test]
async fn transient_faults_are_retried() {
    let answers = vec![
        Answer::error(500, "x"),
        Answer::CutBody,
        Answer::Json(a_plan()),
    ];
    let (server, outcome) = ask(answers, &hasty()).await;
    let answered = outcome.unwrap();
    assert_eq!(spent(&answered.spent), (3, 11, 5));
    assert_eq!(answered.value.tasks.len(), 1);
    assert_eq!(answered.text, a_plan().to_string());
    assert_eq!(server.count("plan"), 3);
}

#[tokio::test]
async fn tokens_of_failed_answers_count() {
    let empty = Answer::Text(" \n".to_owned());
    let answers = vec![empty.clone(), empty, Answer::Json(a_plan())];
    let (_server, outcome) = ask(answers, &hasty()).await;
    assert_eq!(spent(&outcome.unwrap().spent), (3, 33, 15));
}

#[tokio::test]
async fn tries_are_counted_and_bounded() {
    let (server, outcome) = ask(vec![Answer::error(500, "x")], &hasty()).await;
    let error = outcome.unwrap_err();
    assert_eq!(error.spent.calls, 3);
    assert_eq!(server.count("plan"), 3);
    assert!(error.retryable());

    let (server, outcome) = ask(vec![Answer::error(401, "x")], &hasty()).await;
    let error = outcome.unwrap_err();
    assert_eq!((error.spent.calls, server.count("plan")), (1, 1));
    assert!(!error.retryable());
}

#[tokio::test]
async fn retry_after_is_respected() {
    // Otherwise the first case would wait for an hour.
    let patient = LlmConfig {
        retry_delay: Duration::from_secs(3600),
        ..hasty()
    };
    for soon in ["0", "Sat, 21 Nov 2020 10:00:00 GMT"] {
        let answers = vec![Answer::busy(429, soon), Answer::Json(a_plan())];
        let (_server, outcome) =
            tokio::time::timeout(Duration::from_secs(20), ask(answers, &patient))
                .await
                .unwrap();
        assert_eq!(outcome.unwrap().spent.calls, 2);
    }
    // The test does not wait for an hour: the error contains the wait.
    let (_server, outcome) = ask(vec![Answer::busy(429, "3600")], &hasty()).await;
    let error = outcome.unwrap_err();
    assert_eq!(error.spent.calls, 1);
    assert_eq!(error.retry_after(), Some(Duration::from_secs(3600)));
}

#[tokio::test]
async fn unusable_answer_is_retried_with_problem() {
    let cyclic = json!({"name": "x", "description": "", "tasks": [
        {"name": "a", "description": "a", "expected_output": "a", "depends_on": [2]},
        {"name": "b", "description": "b", "expected_output": "b", "depends_on": [1]},
    ]});
    for (answer, complaint) in [
        (Answer::Json(cyclic), "in a circle: 1 → 2 → 1"),
        (
            Answer::Json(json!({"name": "x", "description": "", "tasks": []})),
            "`tasks` is empty",
        ),
        (Answer::Json(json!({"name": "x"})), "missing field `tasks`"),
        (
            Answer::Text("I'd rather not </data> say".to_owned()),
            "holds no JSON object",
        ),
        (
            Answer::Text("{\"name\": \"x\", \"tasks\": [{".to_owned()),
            "not valid JSON",
        ),
        (
            Answer::Text(format!("Draft: {{\"tasks\": []}} Final: {}", a_plan())),
            "JSON objects that differ",
        ),
    ] {
        let fenced = format!("Here you are:\n```json\n{}\n```", a_plan());
        let (server, outcome) = ask(vec![answer, Answer::Text(fenced)], &hasty()).await;
        let answered = outcome.unwrap();
        assert_eq!(spent(&answered.spent), (2, 22, 10));
        let asked = server.asked();
        let (first, second) = (asked[0].prompt(), asked[1].prompt());
        assert!(
            second.starts_with(first) && second.contains(complaint),
            "{second}"
        );
        let marks = |prompt: &str| prompt.matches("</data>").count();
        assert_eq!(marks(second), marks(first) + 1);
        assert_eq!(asked[0].system(), asked[1].system());
    }
}

#[tokio::test]
async fn two_unusable_answers_fail() {
    let (_server, outcome) = ask(vec![Answer::Text("no".to_owned())], &hasty()).await;
    let error = outcome.unwrap_err();
    assert_eq!(spent(&error.spent), (2, 22, 10));
    assert!(!error.retryable());
    assert!(matches!(&error.fault, Fault::Unusable { text, .. } if text == "no"));
    insta::assert_snapshot!(error, @"model `test-model` gave no usable answer to `plan`: the answer holds no JSON object, but says: no");
}

#[tokio::test]
async fn truncated_answer_is_retried_with_larger_limit() {
    let answers = vec![Answer::Cut("{".to_owned()), Answer::Json(a_plan())];
    let (server, outcome) = ask(answers, &hasty()).await;
    assert_eq!(outcome.unwrap().spent.output_tokens, 10);
    let asked = server.asked();
    let limit = |index: usize| asked[index].body["max_tokens"].as_u64().unwrap();
    assert_eq!(limit(1), 2 * limit(0));

    let (_server, outcome) = ask(vec![Answer::Cut("{".to_owned())], &hasty()).await;
    let error = outcome.unwrap_err();
    assert_eq!((error.spent.calls, error.spent.output_tokens), (2, 10));
    assert!(matches!(error.fault, Fault::CutAnswer { .. }));
}

#[tokio::test]
async fn answer_that_repeats_itself_is_ended_and_asked_for_again() {
    let endless = Answer::Text("7. Look again at all of the files that are there.\n".repeat(900));
    let (server, outcome) = ask(vec![endless.clone(), Answer::Json(a_plan())], &hasty()).await;
    assert_eq!(outcome.unwrap().spent.calls, 2);
    let asked = server.asked();
    assert_eq!(asked[1].body["max_tokens"], asked[0].body["max_tokens"]);

    let (_server, outcome) = ask(vec![endless], &hasty()).await;
    let error = outcome.unwrap_err();
    assert!(
        error.to_string().ends_with("repeats itself without an end"),
        "{error}"
    );
    assert_eq!((error.spent.calls, error.retryable()), (2, false));
}

#[tokio::test]
async fn overflow_makes_question_smaller() {
    let goal = "a long goal ".repeat(5_000);
    let context = PlanContext {
        goal: &goal,
        ..PlanContext::default()
    };
    let prompts = Prompts::load(None).unwrap();
    let question = questions::plan(&context).render(&prompts).unwrap();
    // The words of Anthropic (twice), OpenAI, vLLM, llama-server and LM Studio.
    for (status, kind, words) in [
        (
            400,
            "invalid_request_error",
            "prompt is too long: 208310 tokens > 200000 maximum",
        ),
        (413, "request_too_large", "Request exceeds the maximum size"),
        (
            400,
            "context_length_exceeded",
            "Your input exceeds the limit",
        ),
        (
            400,
            "BadRequestError",
            "This model's maximum context length is 8192 tokens. However, you requested 9000",
        ),
        (
            400,
            "exceed_context_size_error",
            "the request exceeds the available context size",
        ),
        (
            500,
            "",
            "Trying to keep the first 5000 tokens when context length is only 4096",
        ),
    ] {
        let body = json!({"error": {"message": words, "type": kind, "code": status}});
        let overflow = Answer::Status(status, None, body.to_string());
        for (answers, calls) in [
            (
                vec![overflow.clone(), overflow.clone(), Answer::Json(a_plan())],
                3,
            ),
            (
                vec![
                    overflow.clone(),
                    Answer::Text("no".to_owned()),
                    Answer::Json(a_plan()),
                ],
                3,
            ),
            (vec![overflow.clone()], 4),
        ] {
            let fits = answers.len() > 1;
            let server = LlmServer::replying(answers);
            let model = Model::new(model(&endpoint(&server, Api::OpenAi)), &hasty());
            let outcome = ask_counting(&model, &question).await;
            assert_eq!(outcome.is_ok(), fits, "{words}: {outcome:?}");
            let asked = server.asked();
            assert_eq!(asked.len(), calls, "{words}");
            let size = |index: usize| asked[index].prompt().len();
            assert!(size(1) < size(0) && size(calls - 1) < size(0), "{words}");
            let limit = |index: usize| asked[index].body["max_tokens"].as_u64().unwrap();
            assert_eq!(2 * limit(1), limit(0));
            let Err(error) = outcome else { continue };
            assert_eq!(error.spent.calls, 4);
            assert!(!error.retryable());
            has(error.to_string(), ["has too small a context", words]);
            has(error.hint(), "a larger context");
        }
        let server = LlmServer::replying(vec![overflow]);
        let model = Model::new(model(&endpoint(&server, Api::Anthropic)), &hasty());
        let error = ask_counting(&model.at_most(2), &question)
            .await
            .unwrap_err();
        assert_eq!(
            (error.spent.calls, server.asked().len()),
            (2, 2),
            "the budget holds"
        );
    }
}

#[tokio::test]
async fn schema_is_dropped_for_servers_without_support() {
    for (api, complaint) in [
        (Api::OpenAi, "This response_format type is unavailable now"),
        (
            Api::Anthropic,
            "output_config: Extra inputs are not permitted",
        ),
    ] {
        let server = LlmServer::start(move |asked| match asked.schema() {
            Some(_) => Answer::error(400, complaint),
            None => Answer::Json(a_plan()),
        });
        let llm = model(&endpoint(&server, api));
        for _ in 0..2 {
            llm.exchange(&request()).await.unwrap();
        }
        let asked = server.asked();
        let with_schema: Vec<_> = asked.iter().map(|asked| asked.schema().is_some()).collect();
        assert_eq!(with_schema, [true, false, false], "{api:?}");
    }
}

#[tokio::test]
async fn reasoning_model_gets_supported_parameters() {
    let server = LlmServer::start(|asked| {
        let body = &asked.body;
        if body.get("temperature").is_some() {
            Answer::error(400, "'temperature' does not support 0 with this model")
        } else if body.get("max_tokens").is_some() {
            Answer::error(400, "Use 'max_completion_tokens' instead of 'max_tokens'.")
        } else {
            Answer::Json(a_plan())
        }
    });
    let llm = model(&endpoint(&server, Api::OpenAi));
    // Refused calls count, besides the one that is answered.
    for refused in [2, 0] {
        let reply = llm.exchange(&request()).await.unwrap();
        assert_eq!(spent(&reply.spent).0, refused);
    }
    let asked = server.asked();
    assert_eq!(asked.len(), 4);
    assert!(asked.iter().all(|asked| asked.schema().is_some()));
}
