"""lsp_client.py PINCH TREE: drives `pinch lsp` with pygls, and prints one JSON object: the answer to each step."""
import asyncio, json, sys
from pathlib import Path

from lsprotocol import types as lsp
from pygls.lsp.client import LanguageClient

PINCH, TREE = sys.argv[1], Path(sys.argv[2]).resolve()
SECONDS = 60


class Editor:
    """An editor with open documents, which remembers the newest diagnostics of each file."""

    def __init__(self):
        self.client = LanguageClient("tests", "1")
        self.found, self.came = {}, asyncio.Event()
        self.versions = {}

        @self.client.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def publish(params):
            self.found[params.uri] = params
            self.came.set()

    async def start(self):
        await self.client.start_io(PINCH, "lsp")
        folder = lsp.WorkspaceFolder(uri=TREE.as_uri(), name="tree")
        answer = await self.client.initialize_async(lsp.InitializeParams(capabilities=lsp.ClientCapabilities(), workspace_folders=[folder], root_uri=TREE.as_uri()))
        self.client.initialized(lsp.InitializedParams())
        return answer.server_info.name

    async def end(self):
        await self.client.shutdown_async(None)
        self.client.exit(None)
        await asyncio.wait_for(self.client._server.wait(), SECONDS)
        return self.client._server.returncode

    def uri(self, name):
        return (TREE / "salt" / name).as_uri()

    def open(self, name, text=None):
        text = (TREE / "salt" / name).read_text() if text is None else text
        self.versions[name] = 1
        document = lsp.TextDocumentItem(uri=self.uri(name), language_id="sls", version=1, text=text)
        self.client.text_document_did_open(lsp.DidOpenTextDocumentParams(text_document=document))

    def change(self, name, text):
        self.versions[name] += 1
        document = lsp.VersionedTextDocumentIdentifier(uri=self.uri(name), version=self.versions[name])
        change = lsp.TextDocumentContentChangeWholeDocument(text=text)
        self.client.text_document_did_change(lsp.DidChangeTextDocumentParams(text_document=document, content_changes=[change]))

    def close(self, name):
        document = lsp.TextDocumentIdentifier(uri=self.uri(name))
        self.client.text_document_did_close(lsp.DidCloseTextDocumentParams(text_document=document))

    async def diagnostics(self, name):
        """Waits for the diagnostics of the newest version, and returns code, line and column of each."""
        async def newest():
            while True:
                found = self.found.get(self.uri(name))
                if found and found.version == self.versions[name]:
                    return found
                self.came.clear()
                await self.came.wait()
        found = await asyncio.wait_for(newest(), SECONDS)
        return [[one.code, one.range.start.line, one.range.start.character, one.message] for one in found.diagnostics]

    def at(self, name, text, mark="|"):
        """Changes the text to that without the mark, and returns the place of the mark."""
        before = text.split(mark)[0]
        self.change(name, text.replace(mark, ""))
        place = lsp.Position(line=before.count("\n"), character=len(before.split("\n")[-1]))
        return dict(text_document=lsp.TextDocumentIdentifier(uri=self.uri(name)), position=place)

    async def complete(self, name, text):
        """Completes at the mark `|`. Returns the text of each item."""
        items = await self.client.text_document_completion_async(lsp.CompletionParams(**self.at(name, text)))
        return [item.text_edit.new_text for item in items]

    async def hover(self, name, text):
        found = await self.client.text_document_hover_async(lsp.HoverParams(**self.at(name, text)))
        return found and found.contents.value

    async def definition(self, name, text):
        found = await self.client.text_document_definition_async(lsp.DefinitionParams(**self.at(name, text)))
        return found and [found.uri.removeprefix(TREE.as_uri()), found.range.start.line]


WEB = (TREE / "salt/web/init.sls").read_text()


async def main():
    editor, out = Editor(), {}
    out["server"] = await editor.start()
    editor.open("web/init.sls")
    out["opened"] = await editor.diagnostics("web/init.sls")
    editor.change("web/init.sls", WEB.replace("- pkgs:", "- pgks:").replace("file: /etc/motd", "file: /etc/modt"))
    out["changed"] = await editor.diagnostics("web/init.sls")
    for number in range(20):
        editor.change("web/init.sls", WEB + "#" * number)
    out["typed quickly"] = await editor.diagnostics("web/init.sls")
    editor.open("new.sls", "a:\n  pkg.instaled: []\n")
    out["unsaved"] = await editor.diagnostics("new.sls")

    complete = lambda text: editor.complete("web/init.sls", text)
    out["complete state"] = await complete("a:\n  pkg.inst|")
    out["complete argument"] = await complete("a:\n  file.managed:\n    - sour|")
    out["complete requisite"] = await complete("a:\n  pkg.installed:\n    - onfail_s|")
    out["complete id"] = await complete("'own id':\n  file.managed: []\na:\n  pkg.installed:\n    - require:\n      - file: |")
    out["complete pillar"] = await complete("a:\n  cmd.run:\n    - name: {{ pillar['web']['|")
    out["complete pillar path"] = await complete("a:\n  cmd.run:\n    - name: {{ salt['pillar.get']('web:work|")
    out["complete include"] = await complete("include:\n  - ba|")
    out["complete function"] = await complete("a:\n  cmd.run:\n    - name: {{ salt['network.ip_ad|")

    hover = lambda text: editor.hover("web/init.sls", text)
    out["hover state"] = await hover("a:\n  pkg.inst|alled:\n    - name: x\n")
    out["hover argument"] = await hover("a:\n  file.managed:\n    - sou|rce: x\n")
    out["hover option"] = await hover("a:\n  file.managed:\n    - requ|ire: []\n")
    out["hover function"] = await hover("a:\n  cmd.run:\n    - name: {{ salt['pillar.g|et']('x') }}\n")
    out["hover nothing"] = await hover("|\na: {}\n")

    definition = lambda old, new: editor.definition("web/init.sls", WEB.replace(old, new))
    out["define include"] = await definition("- base", "- ba|se")
    out["define relative"] = await definition(".site", ".si|te")
    out["define extend"] = await definition("  tools:", "  to|ols:")
    out["define requisite"] = await definition("/etc/motd", "/etc/m|otd")
    out["define sls"] = await definition("sls: base", "sls: ba|se")
    out["define own"] = await editor.definition("web/init.sls", "a:\n  pkg.installed: []\nb:\n  cmd.run:\n    - require:\n      - pkg: |a\n")

    try:
        document = lsp.TextDocumentIdentifier(uri=editor.uri("new.sls"))
        await editor.client.text_document_document_symbol_async(lsp.DocumentSymbolParams(text_document=document))
    except Exception as error:
        out["unknown request"] = str(error)
    editor.open("base.sls")
    editor.close("base.sls")
    out["exit"] = await editor.end()
    print(json.dumps(out))


asyncio.run(asyncio.wait_for(main(), 4 * SECONDS))
