"""Commands of the active controller: functions of a view that return records and an answer. PURE."""
