"""Problems and lessons: what they are called, say and look like."""
