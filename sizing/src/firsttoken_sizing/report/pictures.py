"""A figure as bytes of the format that a file name or an option asks for; each renderer is loaded when it is used."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from firsttoken_sizing.errors import one_of
from firsttoken_sizing.report.figure import Figure


class PictureFormat(StrEnum):
    """Format of a picture."""

    HTML = "html"
    PNG = "png"


@dataclass(frozen=True, slots=True, repr=False)
class Picture:
    """A figure that a notebook shows as an image."""

    figure: Figure

    def __repr__(self) -> str:
        return f"<{self.figure.title}>"

    def _repr_png_(self) -> bytes:
        """The image that Jupyter shows."""
        return draw(self.figure, PictureFormat.PNG)

    def save(self, file: str | Path) -> None:
        """Write it; the suffix, `.png` or `.html`, says as what. Raises `InvalidInput` for another one."""
        path = Path(file)
        path.write_bytes(draw(self.figure, one_of(PictureFormat, "file", path.suffix.removeprefix("."))))


def draw(figure: Figure, picture_format: PictureFormat) -> bytes:
    """The picture. Raises `ModuleNotFoundError` where the package that draws it is not installed (extra `plots`)."""
    if picture_format is PictureFormat.HTML:
        from firsttoken_sizing.report.plotly_page import html_page

        return html_page(figure).encode()
    from firsttoken_sizing.report.matplotlib_png import png_image

    return png_image(figure)
