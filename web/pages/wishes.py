"""Models that visitors would like to be evaluated."""

import hashlib
import hmac
from typing import Final

from flask import Blueprint, current_app, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

from registry.boards.wishes import decline, hub_name, wanted, wish
from registry.db import read_session, write_session
from registry.people import accounts
from web.serving.responses import session
from web.urls import parameters
from web.who.identity import client, engine, limited, viewer

blueprint = Blueprint("wishes", __name__)

WISHES: Final = "5 per hour"
VOTES: Final = "30 per hour"


@blueprint.get("/wanted")
def wishes() -> ResponseReturnValue:
    """What is wanted, with votes and state, and the form to ask for a model."""
    with read_session(engine()) as database:
        return render_template("wanted.html", wishes=wanted(database, session()))


@blueprint.post("/wanted")
def ask() -> ResponseReturnValue:
    """Asks for a model, or votes for one that somebody asked for."""
    viewer().require("read")
    model = hub_name(request.form.get("model", ""))
    voted = request.form.get("vote") == "yes"
    key = current_app.secret_key
    secret = key.encode() if isinstance(key, str) else bytes(key or b"")
    voter = hmac.new(secret, f"{client()}\n{model.lower()}".encode(), hashlib.sha256).hexdigest()
    with limited(VOTES if voted else WISHES, "votes" if voted else "wishes"), write_session(engine()) as database:
        wish(database, model, voter)
    return redirect(url_for("wishes.wishes"), 303)


@blueprint.post("/wanted/<wish_id>")
def decide(wish_id: str) -> ResponseReturnValue:
    """Declines a wish for a reason; without one, takes that back."""
    viewer().require("maintain")
    number = parameters.identifier("wish", wish_id)
    with write_session(engine()) as database:
        decline(database, number, request.form.get("reason", ""))
        accounts.record(database, viewer(), "wish.decline", str(number), address=request.remote_addr)
    return redirect(url_for("wishes.wishes"), 303)
