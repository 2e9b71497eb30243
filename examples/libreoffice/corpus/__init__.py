"""Text of LibreOffice, from Debian's packages."""
