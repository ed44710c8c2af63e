"""What may be written where a cursor stands, in a text that need not be a playbook yet.

The text is read line by line (`outline`), what the schema says of a place is looked up (`shapes`),
and what of it helps is offered, with names that the document or the installation has (`offers`).
"""

from __future__ import annotations

from noetl.dsl.completion.offers import Completer, Completion, InstalledNames, Offer

__all__ = ["Completer", "Completion", "InstalledNames", "Offer"]
