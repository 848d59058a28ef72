// Starts tiny-lsp for the texts of tinyir.
const { workspace } = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

exports.activate = () => {
  const { contributes } = require("./package.json");
  const command = workspace.getConfiguration("tinyir").get("command");
  const documentSelector = contributes.languages.map(({ id }) => ({ scheme: "file", language: id }));
  client = new LanguageClient("tinyir", "tinyir", { command, args: [] }, { documentSelector });
  return client.start();
};

exports.deactivate = () => client?.stop();
