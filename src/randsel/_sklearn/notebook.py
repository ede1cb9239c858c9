"""Results of a fitted selector in a notebook: as a data frame, and as HTML."""

from html import escape
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from randsel._utils.text import format_number, format_p_value, make_visible, optional
from randsel._utils.typing import Array

#: Column of the data frame -> attribute of the selector with a number per feature.
COLUMNS = {
    "contribution": "contributions_",
    "main_score": "main_scores_",
    "interaction_score": "interaction_scores_",
    "p": "pvalues_",
    "q": "qvalues_",
    "main_p": "main_pvalues_",
    "probability": "probabilities_",
    "score": "scores_",
}
SHOWN = 10  # number of features in the HTML
#: For pages that have no style of their own for tables; colours are those of the page.
STYLE = ".randsel th, .randsel td { padding: .15em .7em; text-align: left } .randsel .number { text-align: right }"


class NotebookMixin:
    """Adds `to_frame` and a representation as HTML to a selector with `support_`, `ranking_` and `order_`."""

    support_: Any
    ranking_: Any
    order_: Any
    missing_counts_: Any
    path_: Any

    def to_frame(self) -> Any:
        """Return the ranking as a pandas data frame.

        Returns
        -------
        pandas.DataFrame
            One row per feature, best first: `feature` (its name, or x0, x1, … as in scikit-learn), `rank`, `selected`,
            scores or p-values of the selector, and `missing`, the number of missing values, if there are any.
        """
        check_is_fitted(self)
        pandas = optional("pandas", extra="pandas", purpose="to_frame")
        return pandas.DataFrame(self._list_results()).iloc[self.order_].reset_index(drop=True)

    def _list_results(self) -> dict[str, Array]:
        """Return the columns of the data frame, in the order of the features."""
        results = {"feature": self._names(), "rank": self.ranking_, "selected": self.support_}
        for column, attribute in COLUMNS.items():
            values = getattr(self, attribute, None)
            if values is not None and np.shape(values) == np.shape(self.support_) and not np.isnan(values).all():
                results[column] = values
        results |= self._list_more_results()
        if getattr(self, "missing_counts_", None) is not None and np.any(self.missing_counts_):
            results["missing"] = self.missing_counts_
        return results

    def _list_more_results(self) -> dict[str, Array]:
        """Return columns that only this kind of selector has."""
        return {}

    def _names(self) -> Array:
        names = getattr(self, "feature_names_in_", None)
        count = len(self.support_)
        return np.array(
            [f"x{j}" for j in range(count)] if names is None else [str(name) for name in names], dtype=object
        )

    # ------------------------------------------------------------ HTML

    @property
    def _repr_html_(self) -> Any:
        inner = super()._repr_html_  # type: ignore[misc]  # AttributeError if HTML is turned off in scikit-learn
        return inner if not hasattr(self, "support_") else lambda: self._summary_as_html() + inner()

    def _repr_mimebundle_(self, **options: Any) -> dict[str, Any]:
        bundle: dict[str, Any] = super()._repr_mimebundle_(**options)  # type: ignore[misc]
        if "text/html" in bundle and hasattr(self, "support_"):
            bundle["text/html"] = self._summary_as_html() + bundle["text/html"]
        return bundle

    def _summary_as_html(self) -> str:
        """Return the verdict, and the first features as a table; names are escaped."""
        results = self._list_results()
        rows = np.asarray(self.order_)[:SHOWN]
        kinds = {name: ' class="number"' if values.dtype.kind in "iuf" else "" for name, values in results.items()}
        header = "".join(f"<th{kind}>{escape(name.replace('_', ' '))}</th>" for name, kind in kinds.items())
        body = "".join(
            "<tr>"
            + "".join(f"<td{kinds[name]}>{_cell(name, values[row])}</td>" for name, values in results.items())
            + "</tr>"
            for row in rows.tolist()
        )
        sentences = " ".join(self._sentences())
        return (
            f'<div class="randsel"><style>{STYLE}</style><p>{escape(sentences)}</p>'
            f"<table><thead><tr>{header}</tr></thead><tbody>{body}</tbody></table></div>"
        )

    def _sentences(self) -> list[str]:
        """Return the verdict: is there a signal, and how many features are selected."""
        sentences = []
        p = getattr(self, "permutation_pvalue_", None)
        tested = "" if p is None else f" (permutation test, p = {format_p_value(p)})"
        if hasattr(self, "stands_out_"):
            related = "The features as a whole are related to the target"
            if not self.stands_out_:
                related = "Nothing stands out"
            elif not self.path_.passes_permutation_test:
                related = "Together, the features predict the target, although one by one they do not stand out"
            sentences.append(f"{related}{tested}.")
        count, total = int(np.sum(self.support_)), len(self.support_)
        sentences.append(f"{count} of {total} features {'is' if count == 1 else 'are'} selected.")
        if hasattr(self, "best_score_"):
            sentences.append(f"Mean score over the folds: {format_number(self.best_score_)}.")
        return sentences


def _cell(name: str, value: Any) -> str:
    if isinstance(value, str):
        return escape(make_visible(value))
    if isinstance(value, bool | np.bool_):
        return "yes" if value else ""
    if isinstance(value, int | np.integer):
        return str(int(value))
    return format_p_value(float(value)) if name in ("p", "q", "main_p", "partner_p") else format_number(float(value))
