"""Editing drafts: clips with captions on a timeline, written for editing applications, in one zip."""
