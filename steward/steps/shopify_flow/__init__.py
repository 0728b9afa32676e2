"""Task types of Shopify Flow, the order in which a flow runs them, and what each step sees."""
