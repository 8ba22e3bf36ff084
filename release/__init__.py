"""What `make release` puts into a folder: packages, chart, images, bills of materials, checksums. Nothing is published."""
