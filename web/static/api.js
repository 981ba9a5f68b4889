// Draws the reference of the API from its OpenAPI document.
const place = document.getElementById("reference");
SwaggerUIBundle({
  url: place.dataset.document,
  domNode: place,
  docExpansion: "list",
  defaultModelsExpandDepth: -1,
  syntaxHighlight: false,
  validatorUrl: null,
});
