"""A figure as bytes of the format that a file name or an option asks for; each renderer is loaded when it is used."""

from __future__ import annotations

from enum import StrEnum

from firsttoken_sizing.report.figure import Figure


class PictureFormat(StrEnum):
    """Format of a picture."""

    HTML = "html"
    PNG = "png"


def draw(figure: Figure, picture_format: PictureFormat) -> bytes:
    """The picture. Raises `ModuleNotFoundError` where the package that draws it is not installed (extra `plots`)."""
    if picture_format is PictureFormat.HTML:
        from firsttoken_sizing.report.plotly_page import html_page

        return html_page(figure).encode()
    from firsttoken_sizing.report.matplotlib_png import png_image

    return png_image(figure)
