"""Laws that hold whatever users give: tables, files, settings and paths are drawn by strategies of hypothesis."""
