"""The versions that n8n has of its node types; a test compares every step type with them."""

from datetime import date
from types import MappingProxyType

N8N_VERSION = "2.41.1"  # the newest n8n that the list was compared with
COMPARED_ON = date(2026, 11, 22)

VERSIONS = MappingProxyType(
    {
        "aggregate": (1,),
        "airtable": (1, 2, 2.1),
        "aiTransform": (1,),
        "code": (1, 2),
        "compareDatasets": (1, 2, 2.1, 2.2, 2.3),
        "compression": (1, 1.1),
        "convertToFile": (1, 1.1),
        "crypto": (1, 2),
        "dataTable": (1, 1.1),
        "dateTime": (1, 2),
        "debugHelper": (1,),
        "discord": (1, 2),
        "editImage": (1,),
        "emailSend": (1, 2, 2.1),
        "executeWorkflow": (1, 1.1, 1.2, 1.3, 1.4),
        "executionData": (1, 1.1),
        "extractFromFile": (1, 1.1),
        "filter": (1, 2, 2.1, 2.2, 2.3),
        "form": (1, 2.3, 2.4, 2.5),
        "function": (1,),
        "functionItem": (1,),
        "gmail": (1, 2, 2.1, 2.2),
        "github": (1, 1.1),
        "googleDrive": (1, 2, 3),
        "googleSheets": (1, 2, 3, 4, 4.1, 4.2, 4.3, 4.4, 4.5, 4.6, 4.7),
        "graphql": (1, 1.1),
        "html": (1, 1.1, 1.2),
        "hubspot": (1, 2, 2.1, 2.2),
        "httpRequest": (1, 2, 3, 4, 4.1, 4.2, 4.3, 4.4, 4.5),
        "iCal": (1,),
        "if": (1, 2, 2.1, 2.2, 2.3),
        "itemLists": (1, 2, 2.1, 2.2, 3, 3.1),
        "jira": (1,),
        "limit": (1,),
        "mailchimp": (1,),
        "markdown": (1,),
        "mattermost": (1,),
        "merge": (1, 2, 2.1, 3, 3.1, 3.2),
        "microsoftOutlook": (1, 2),
        "microsoftTeams": (1, 1.1, 2),
        "moveBinaryData": (1, 1.1),
        "noOp": (1,),
        "notion": (1, 2, 2.1, 2.2),
        "pipedrive": (1,),
        "readBinaryFile": (1,),
        "readBinaryFiles": (1,),
        "readPDF": (1,),
        "readWriteFile": (1, 1.1),
        "removeDuplicates": (1, 1.1, 2),
        "renameKeys": (1,),
        "respondToWebhook": (1, 1.1, 1.2, 1.3, 1.4, 1.5),
        "rssFeedRead": (1, 1.1, 1.2),
        "set": (1, 2, 3, 3.1, 3.2, 3.3, 3.4, 3.5),
        "shopify": (1,),
        "slack": (1, 2, 2.1, 2.2, 2.3, 2.4),
        "sort": (1,),
        "splitInBatches": (1, 2, 3),
        "splitOut": (1,),
        "spreadsheetFile": (1, 2),
        "stopAndError": (1,),
        "stripe": (1,),
        "summarize": (1, 1.1),
        "switch": (1, 2, 3, 3.1, 3.2, 3.3, 3.4),
        "telegram": (1, 1.1, 1.2),
        "twilio": (1,),
        "wait": (1, 1.1),
        "whatsApp": (1, 1.1),
        "wooCommerce": (1,),
        "writeBinaryFile": (1,),
        "xml": (1,),
        "zendesk": (1,),
    }
)
"""Node type to all its versions. What runs of each is the `versions` of its step type."""


def has_major(versions: tuple[float, ...], version: float) -> bool:
    """Whether a version differs from one of these at most in its minor number."""
    return any(int(version) == int(listed) for listed in versions)
