"""Small tables and how to write them, for the tests of tables."""

import io
import zipfile
from datetime import date
from xml.sax.saxutils import escape, quoteattr


def package_not_installed(module, *, extra, purpose):
    """Stand in for `optional` where a package is not installed."""
    msg = f"{purpose} needs {module}, which is not installed: pip install {module} (part of the extra '{extra}')."
    raise ImportError(msg)


#: A table with ids, target and groups.
PLAIN = ",a,b,status,donor\nr1,1,2.5,sick,d1\nr2,3,-4e2,well,d2\nr3,5,6,well,d1\nr4,7,0,sick,d2\n"


def has_note(table, words):
    """Return whether a note of a table contains these words."""
    return any(words in note for note in table.notes)


# ---------------------------------------------------------------- workbooks

_XLSX = {
    "[Content_Types].xml": '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
    '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    '<Default Extension="xml" ContentType="application/xml"/></Types>',
    "_rels/.rels": '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
    '<Relationship Id="r" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" '
    'Target="xl/workbook.xml"/></Relationships>',
    # style 1 is a date
    "xl/styles.xml": '<styleSheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'
    '<cellXfs count="2"><xf numFmtId="0"/><xf numFmtId="14" applyNumberFormat="1"/></cellXfs></styleSheet>',
}
_SHEET_TYPE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_DAY_ZERO = date(1899, 12, 30)


def workbook(sheets):
    """Return the bytes of an .xlsx file; `sheets` is name -> rows of cells: text, numbers, dates, bools or None."""
    main = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    entries = [f'<sheet name={quoteattr(name)} sheetId="{k}" r:id="s{k}"/>' for k, name in enumerate(sheets, start=1)]
    links = [
        f'<Relationship Id="s{k}" Type="{_SHEET_TYPE}/worksheet" Target="worksheets/sheet{k}.xml"/>'
        for k in range(1, len(sheets) + 1)
    ]
    links.append(f'<Relationship Id="t" Type="{_SHEET_TYPE}/styles" Target="styles.xml"/>')
    members = _XLSX | {
        "xl/workbook.xml": f'<workbook {main} xmlns:r="{_SHEET_TYPE}"><sheets>{"".join(entries)}</sheets></workbook>',
        "xl/_rels/workbook.xml.rels": '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/'
        f'relationships">{"".join(links)}</Relationships>',
    }
    for k, rows in enumerate(sheets.values(), start=1):
        body = "".join(f"<row>{''.join(map(_xlsx_cell, row))}</row>" for row in rows)
        members[f"xl/worksheets/sheet{k}.xml"] = f"<worksheet {main}><sheetData>{body}</sheetData></worksheet>"
    return _zip(members)


def _xlsx_cell(cell):
    if cell is None:
        return "<c/>"
    if isinstance(cell, bool):
        return f'<c t="b"><v>{int(cell)}</v></c>'
    if isinstance(cell, date):
        return f'<c s="1"><v>{(cell - _DAY_ZERO).days}</v></c>'
    if isinstance(cell, str):
        return f'<c t="inlineStr"><is><t>{escape(cell)}</t></is></c>'
    return f"<c><v>{cell!r}</v></c>"


def open_document(sheets):
    """Return the bytes of an .ods file; `sheets` is name -> rows of text and numbers."""
    spaces = " ".join(
        f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"' for name in ("office", "table", "text")
    )
    tables = "".join(
        f"<table:table table:name={quoteattr(name)}>"
        + "".join(f"<table:table-row>{''.join(map(_ods_cell, row))}</table:table-row>" for row in rows)
        + "</table:table>"
        for name, rows in sheets.items()
    )
    content = f"<office:document-content {spaces}><office:body><office:spreadsheet>{tables}</office:spreadsheet>"
    return _zip(
        {
            "mimetype": "application/vnd.oasis.opendocument.spreadsheet",
            "META-INF/manifest.xml": "<manifest:manifest "
            'xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"/>',
            "content.xml": f"{content}</office:body></office:document-content>",
        }
    )


def _ods_cell(cell):
    if isinstance(cell, str):
        return f'<table:table-cell office:value-type="string"><text:p>{escape(cell)}</text:p></table:table-cell>'
    return f'<table:table-cell office:value-type="float" office:value="{cell!r}"/>'


def _zip(members):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            archive.writestr(zipfile.ZipInfo(name), text)
    return content.getvalue()
