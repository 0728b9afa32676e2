"""What grows inside one organization: every read costs the same with a long history."""
