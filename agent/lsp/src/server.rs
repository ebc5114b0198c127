//! [`Server`]: answers the messages of a client.

use std::path::{Path, PathBuf};

use lint::Settings;
use lsp_server::{ErrorCode, Message, Notification, Request};
use lsp_types::notification::{
    DidChangeTextDocument, DidChangeWatchedFiles, DidCloseTextDocument, DidOpenTextDocument,
    DidSaveTextDocument, Exit, Notification as _, ShowMessage,
};
use lsp_types::request::{
    Completion as CompletionRequest, GotoDefinition, HoverRequest, Initialize, Request as _,
    Shutdown,
};
use lsp_types::{
    CompletionOptions, CompletionParams, CompletionResponse, DidChangeTextDocumentParams,
    DidCloseTextDocumentParams, DidOpenTextDocumentParams, GotoDefinitionParams,
    GotoDefinitionResponse, Hover, HoverContents, HoverParams, HoverProviderCapability,
    InitializeParams, InitializeResult, Location, MarkupContent, MarkupKind, MessageType, OneOf,
    Position, Range, SaveOptions, ServerCapabilities, ServerInfo, ShowMessageParams,
    TextDocumentPositionParams, TextDocumentSyncCapability, TextDocumentSyncKind,
    TextDocumentSyncOptions, TextDocumentSyncSaveOptions, Uri,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;

use crate::check::{Checker, Task};
use crate::complete::Completion;
use crate::documents::{Document, Documents};
use crate::output::{Output, Refused};
use crate::tree::{Sls, Tree};
use crate::{End, Setup, look, paths};

/// The characters after which an editor requests completions.
const TRIGGERS: [&str; 6] = [" ", ".", ":", "'", "\"", "-"];

/// The phase of the conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Starting,
    Running,
    Ending,
}

/// A server and its client.
pub(crate) struct Server<'a> {
    setup: Setup<'a>,
    output: Output,
    checker: Checker,
    documents: Documents,
    /// The settings for the tree; `None` until the tree is known.
    settings: Option<Settings>,
    phase: Phase,
}

impl<'a> Server<'a> {
    pub(crate) fn new(output: Output, setup: Setup<'a>) -> Result<Self, String> {
        Ok(Self {
            settings: setup.tree.clone(),
            setup,
            checker: Checker::start(output.clone())?,
            output,
            documents: Documents::default(),
            phase: Phase::Starting,
        })
    }

    /// Processes a message. Returns the end of the server if the message is the last one.
    pub(crate) fn take(&mut self, message: Message) -> Option<End> {
        match message {
            Message::Request(Request { id, method, params }) => {
                let outcome = self.request(&method, params);
                self.output.answer(id, outcome);
                None
            }
            Message::Notification(one) if one.method == Exit::METHOD => Some(match self.phase {
                Phase::Ending => End::Shutdown,
                Phase::Starting | Phase::Running => End::Abandoned,
            }),
            Message::Notification(one) => {
                if self.phase == Phase::Running
                    && let Err(message) = self.notification(one)
                {
                    self.warn(message);
                }
                None
            }
            // The server makes no requests.
            Message::Response(_) => None,
        }
    }

    fn warn(&self, message: String) {
        let typ = MessageType::WARNING;
        let message = ShowMessageParams { typ, message };
        self.output.notify(ShowMessage::METHOD, &message);
    }

    fn request(&mut self, method: &str, params: Json) -> Result<Json, Refused> {
        let refused = |code, message: &str| Err(Refused::new(code, message));
        match (self.phase, method) {
            (Phase::Starting, Initialize::METHOD) => json(&self.initialize(&read(params)?)),
            (Phase::Starting, _) => {
                refused(ErrorCode::ServerNotInitialized, "send initialize first")
            }
            (Phase::Running, Shutdown::METHOD) => {
                self.phase = Phase::Ending;
                Ok(Json::Null)
            }
            (Phase::Running, CompletionRequest::METHOD) => {
                let params: CompletionParams = read(params)?;
                json(&self.complete(&params.text_document_position))
            }
            (Phase::Running, HoverRequest::METHOD) => {
                let params: HoverParams = read(params)?;
                json(&self.hover(&params.text_document_position_params))
            }
            (Phase::Running, GotoDefinition::METHOD) => {
                let params: GotoDefinitionParams = read(params)?;
                json(&self.definition(&params.text_document_position_params))
            }
            (Phase::Running, _) => refused(ErrorCode::MethodNotFound, "unknown method"),
            (Phase::Ending, _) => refused(ErrorCode::InvalidRequest, "the server was shut down"),
        }
    }

    fn initialize(&mut self, params: &InitializeParams) -> InitializeResult {
        self.phase = Phase::Running;
        if self.settings.is_none()
            && let Some(folder) = folder(params)
        {
            self.set_folder(&folder);
        }
        InitializeResult {
            capabilities: capabilities(),
            server_info: Some(ServerInfo {
                name: "pinch".to_owned(),
                version: Some(env!("CARGO_PKG_VERSION").to_owned()),
            }),
        }
    }

    fn set_folder(&mut self, folder: &Path) {
        match (self.setup.of_folder)(folder) {
            Ok(settings) => self.settings = Some(settings),
            Err(error) => self.warn(error),
        }
    }

    fn notification(&mut self, one: Notification) -> Result<(), String> {
        let Notification { method, params } = one;
        let invalid = |error: Refused| format!("{method}: {}", error.message);
        match method.as_str() {
            DidOpenTextDocument::METHOD => {
                let params: DidOpenTextDocumentParams = read(params).map_err(invalid)?;
                let document = params.text_document;
                self.set(&document.uri, document.version, document.text)
            }
            DidChangeTextDocument::METHOD => {
                let params: DidChangeTextDocumentParams = read(params).map_err(invalid)?;
                let document = params.text_document;
                // Each change is the whole text, so the last one is the newest text.
                let Some(change) = params.content_changes.into_iter().next_back() else {
                    return Ok(());
                };
                if change.range.is_some() {
                    return Err(format!("{method}: send the whole text, not a range"));
                }
                self.set(&document.uri, document.version, change.text)
            }
            DidCloseTextDocument::METHOD => {
                let params: DidCloseTextDocumentParams = read(params).map_err(invalid)?;
                self.documents.close(&params.text_document.uri);
                self.check();
                Ok(())
            }
            DidSaveTextDocument::METHOD | DidChangeWatchedFiles::METHOD => {
                self.check();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn set(&mut self, uri: &Uri, version: i32, text: String) -> Result<(), String> {
        let outcome = self.documents.set(uri, version, text);
        if self.settings.is_none()
            && let Some(path) = paths::of_uri(uri)
        {
            self.set_folder(&tree_of(&path));
        }
        self.check();
        outcome
    }

    fn check(&self) {
        if let Some(settings) = &self.settings {
            self.checker.check(Task {
                settings: settings.clone(),
                documents: self.documents.clone(),
            });
        }
    }

    /// Returns the tree with the texts of the editor.
    fn tree(&self) -> Option<Tree> {
        let mut settings = self.settings.clone()?;
        settings.buffers = self.documents.buffers();
        Some(Tree::new(&settings, self.checker.report()))
    }

    fn complete(&self, place: &TextDocumentPositionParams) -> Option<CompletionResponse> {
        let (path, Document { text, .. }) = self.documents.get(&place.text_document.uri)?;
        let tree = self.tree();
        let sls = tree.as_ref().and_then(|tree| tree.sls(&path));
        let completion = Completion {
            registry: self.setup.registry,
            tree: tree.as_ref(),
            sls: sls.as_ref(),
            text: &text,
        };
        Some(CompletionResponse::Array(completion.at(place.position)))
    }

    fn hover(&self, place: &TextDocumentPositionParams) -> Option<Hover> {
        let (_, document) = self.documents.get(&place.text_document.uri)?;
        let value = look::hover(self.setup.registry, &document.text, place.position)?;
        let kind = MarkupKind::Markdown;
        Some(Hover {
            contents: HoverContents::Markup(MarkupContent { kind, value }),
            range: None,
        })
    }

    fn definition(&self, place: &TextDocumentPositionParams) -> Option<GotoDefinitionResponse> {
        let (path, document) = self.documents.get(&place.text_document.uri)?;
        let tree = self.tree()?;
        let sls: Sls = tree.sls(&path)?;
        let target = look::definition(&tree, (&path, &document.text), &sls, place.position)?;
        let line = u32::try_from(target.line).ok()?;
        let position = Position::new(line, 0);
        let range = Range::new(position, position);
        let uri = paths::uri_of(&target.path)?;
        Some(GotoDefinitionResponse::Scalar(Location { uri, range }))
    }
}

/// Reads the parameters of a message.
fn read<T: DeserializeOwned>(params: Json) -> Result<T, Refused> {
    let read = serde_json::from_value(params);
    read.map_err(|error| Refused::new(ErrorCode::InvalidParams, error.to_string()))
}

fn json<T: Serialize>(answer: &T) -> Result<Json, Refused> {
    let json = serde_json::to_value(answer);
    json.map_err(|error| Refused::new(ErrorCode::InternalError, error.to_string()))
}

/// Returns the first folder that the client works in.
fn folder(params: &InitializeParams) -> Option<PathBuf> {
    let folders = params.workspace_folders.iter().flatten();
    let mut folders = folders.map(|folder| &folder.uri);
    #[allow(deprecated, reason = "older clients send only this field")]
    let root = params.root_uri.as_ref();
    folders.next().or(root).and_then(paths::of_uri)
}

/// Returns the tree of a file: the nearest folder with a top file, or else its own folder.
fn tree_of(path: &Path) -> PathBuf {
    let own = path.parent().unwrap_or(path);
    let with_top = own
        .ancestors()
        .find(|folder| folder.join("top.sls").is_file());
    with_top.unwrap_or(own).to_owned()
}

fn capabilities() -> ServerCapabilities {
    let sync = TextDocumentSyncOptions {
        open_close: Some(true),
        change: Some(TextDocumentSyncKind::FULL),
        save: Some(TextDocumentSyncSaveOptions::SaveOptions(
            SaveOptions::default(),
        )),
        ..TextDocumentSyncOptions::default()
    };
    ServerCapabilities {
        text_document_sync: Some(TextDocumentSyncCapability::Options(sync)),
        completion_provider: Some(CompletionOptions {
            trigger_characters: Some(TRIGGERS.map(str::to_owned).to_vec()),
            ..CompletionOptions::default()
        }),
        hover_provider: Some(HoverProviderCapability::Simple(true)),
        definition_provider: Some(OneOf::Left(true)),
        ..ServerCapabilities::default()
    }
}
