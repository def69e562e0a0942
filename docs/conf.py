"""The site: ``python -m sphinx -W --keep-going -b html docs docs/_build``."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "extensions"))

import geodp

project = "geodp"
author = "the geodp developers"
copyright = "the geodp developers, MIT licence"
release = version = geodp.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "docstrings",
    "sphinx_copybutton",
    "mathml",
    "explorer",
]
exclude_patterns = ["_build", "*.template.md", "images"]
suppress_warnings: list[str] = []

# every cross-reference of a page or a docstring must resolve; types of other libraries have no page here
nitpicky = True
nitpick_ignore_regex = [
    (
        "py:.*",
        r"(numpy|np|collections|datetime|decimal|pathlib|typing|sqlalchemy|abc|scipy|flint|sklearn|os|fractions|dask|opendp|dp_event|dp_accounting)\..*",
    ),
    (
        "py:.*",
        r"ArrayLike|Array|NDArray|Any|Bound|Progress|Callable|Iterator|Decimal|datetime|Generator|Path|ABC|NamedTuple|ValueError|"
        r"TypeError|optional|np\.\w+|Function|T|Literal|Fraction|int|float|str|bool|dict|list|tuple|None|object|bytes|range|type|"
        r"arb|acb|arb_mat|acb_mat|geodp\.manifolds\.registry\._Kind|geodp\.release\.(Mean)?Options|MechanismName|"
        r"\w*Options|Flow|Change|Labels|UnitIn|geodp\.estimator\.common\.PrivateEstimator|geodp\.receipt\.Receipts|geodp\.privacy\.amounts\.Numbers|geodp\.programs\.clusters\.Blocks|"
        r"geodp\.programs\.(descent\.(Gradient|Check|Scale|Answer)|median\.Found|found\.Portions)|"
        r"(geodp\.records\.dataset\.)?DatasetOptions|geodp\.records\.sources\.Columns|Number|"
        r"Family|PrivacyLossDistribution|geodp\.privacy\.(groups|risk\.Costed)",
    ),
]

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
myst_url_schemes = ["http", "https", "mailto"]

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_type_aliases = {"ArrayLike": "ArrayLike"}  # otherwise NumPy's whole definition is shown
python_use_unqualified_type_names = True
add_module_names = False

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = True

html_theme = "furo"
html_title = f"geodp {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_show_sourcelink = False
html_show_search_summary = False  # excerpts are fetched, which browsers refuse for pages opened from disk
html_copy_source = False
html_permalinks_icon = "#"
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0072B2", "color-brand-content": "#0072B2"},
    "dark_css_variables": {"color-brand-primary": "#56B4E9", "color-brand-content": "#56B4E9"},
}
