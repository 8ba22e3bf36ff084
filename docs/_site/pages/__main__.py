"""`make reference-docs`: writes the pages of docs/reference that are made from the code."""

from docs._site.pages.table import PAGES, REFERENCE


def main() -> None:
    for name, text in PAGES.items():
        (REFERENCE / name).write_text(text())


if __name__ == "__main__":
    main()
