"""`make release`: packages, chart, images, bills of materials and checksums in one folder. Nothing is published."""
