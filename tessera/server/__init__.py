"""The HTTP and MCP faces over the store."""
