"""Maps n8n's credential types to the sign-in of their services.

Each line holds the credential type, the sign-in, the name of the header or query parameter (`-` for none) and
the hosts. `oauth2` is an OAuth 2 sign-in of a person or an app. Services on the merchant's own host have `-`
as the host: the host of the step's address is used. The node of a service declares the sign-ins that are not
listed here (`HttpServiceNode.credential_types`).
"""

from dataclasses import dataclass

_TABLE = """
httpBearerAuth bearer - -
httpHeaderAuth header - -
httpQueryAuth query - -
httpBasicAuth basic - -
httpCustomAuth custom - -
oAuth2Api oauth2 - -
activeCampaignApi header Api-Token *.api-us1.com
airtableApi bearer - api.airtable.com
airtableOAuth2Api oauth2 - api.airtable.com
airtableTokenApi bearer - api.airtable.com
anthropicApi header x-api-key api.anthropic.com
apifyApi bearer - api.apify.com
apiTemplateIoApi header X-API-KEY api.apitemplate.io
asanaApi bearer - app.asana.com
asanaOAuth2Api oauth2 - app.asana.com
azureOpenAiApi header api-key *.openai.azure.com
bannerbearApi bearer - api.bannerbear.com
baserowApi header Authorization api.baserow.io
bitlyApi bearer - api-ssl.bitly.com
bitlyOAuth2Api oauth2 - api-ssl.bitly.com
boxOAuth2Api oauth2 - api.box.com upload.box.com
calendlyApi bearer - api.calendly.com
clearbitApi bearer - *.clearbit.com
clickUpApi header Authorization api.clickup.com
clickUpOAuth2Api oauth2 - api.clickup.com
cloudflareApi bearer - api.cloudflare.com
codaApi bearer - coda.io
cohereApi bearer - api.cohere.ai api.cohere.com
crowdStrikeOAuth2Api oauth2 - *.crowdstrike.com
deepLApi header Authorization api.deepl.com api-free.deepl.com
deepSeekApi bearer - api.deepseek.com
discordBotApi header Authorization discord.com
discordOAuth2Api oauth2 - discord.com
dropboxApi bearer - api.dropboxapi.com content.dropboxapi.com
dropboxOAuth2Api oauth2 - api.dropboxapi.com content.dropboxapi.com
elevenLabsApi header xi-api-key api.elevenlabs.io
facebookGraphApi query access_token graph.facebook.com
facebookGraphAppApi query access_token graph.facebook.com
firecrawlApi bearer - api.firecrawl.dev
freshdeskApi basic - *.freshdesk.com
getResponseApi header X-Auth-Token api.getresponse.com
githubApi bearer - api.github.com
githubOAuth2Api oauth2 - api.github.com
gitlabApi header Private-Token gitlab.com
gitlabOAuth2Api oauth2 - gitlab.com
gmailOAuth2 oauth2 - gmail.googleapis.com www.googleapis.com
googleAdsOAuth2Api oauth2 - googleads.googleapis.com
googleAnalyticsOAuth2 oauth2 - analyticsdata.googleapis.com analyticsreporting.googleapis.com
googleApi oauth2 - *.googleapis.com
googleCalendarOAuth2Api oauth2 - www.googleapis.com
googleCloudNaturalLanguageOAuth2Api oauth2 - language.googleapis.com
googleContactsOAuth2Api oauth2 - people.googleapis.com
googleDocsOAuth2Api oauth2 - docs.googleapis.com www.googleapis.com
googleDriveOAuth2Api oauth2 - www.googleapis.com
googleOAuth2Api oauth2 - *.googleapis.com
googlePalmApi header x-goog-api-key generativelanguage.googleapis.com
googleSheetsOAuth2Api oauth2 - sheets.googleapis.com
googleSlidesOAuth2Api oauth2 - slides.googleapis.com
googleTasksOAuth2Api oauth2 - tasks.googleapis.com
googleTranslateOAuth2Api oauth2 - translation.googleapis.com
groqApi bearer - api.groq.com
homeAssistantApi bearer - -
hubspotApi query hapikey api.hubapi.com
hubspotAppToken bearer - api.hubapi.com
hubspotDeveloperApi oauth2 - api.hubapi.com
hubspotOAuth2Api oauth2 - api.hubapi.com
huggingFaceApi bearer - api-inference.huggingface.co huggingface.co router.huggingface.co
hunterApi query api_key api.hunter.io
intercomApi bearer - api.intercom.io
jinaAiApi bearer - *.jina.ai
jiraSoftwareCloudApi basic - *.atlassian.net
linearApi header Authorization api.linear.app
linearOAuth2Api oauth2 - api.linear.app
linkedInCommunityManagementOAuth2Api oauth2 - api.linkedin.com
linkedInOAuth2Api oauth2 - api.linkedin.com
mailchimpApi header Authorization *.api.mailchimp.com
mailchimpOAuth2Api oauth2 - *.api.mailchimp.com
mailerLiteApi bearer - connect.mailerlite.com api.mailerlite.com
mailgunApi basic - api.mailgun.net api.eu.mailgun.net
mailjetEmailApi basic - api.mailjet.com
mauticApi basic - -
mauticOAuth2Api oauth2 - -
microsoftExcelOAuth2Api oauth2 - graph.microsoft.com
microsoftGraphOAuth2Api oauth2 - graph.microsoft.com
microsoftGraphSecurityOAuth2Api oauth2 - graph.microsoft.com
microsoftOAuth2Api oauth2 - graph.microsoft.com
microsoftOneDriveOAuth2Api oauth2 - graph.microsoft.com
microsoftOutlookOAuth2Api oauth2 - graph.microsoft.com
microsoftSharePointOAuth2Api oauth2 - graph.microsoft.com *.sharepoint.com
microsoftTeamsOAuth2Api oauth2 - graph.microsoft.com
microsoftToDoOAuth2Api oauth2 - graph.microsoft.com
mistralCloudApi bearer - api.mistral.ai
mondayComApi header Authorization api.monday.com
mondayComOAuth2Api oauth2 - api.monday.com
n8nApi header X-N8N-API-KEY -
nocoDb header xc-auth -
nocoDbApiToken header xc-token -
notionApi bearer - api.notion.com
notionOAuth2Api oauth2 - api.notion.com
openAiApi bearer - api.openai.com
openRouterApi bearer - openrouter.ai
openWeatherMapApi query appid api.openweathermap.org
pagerDutyApi header Authorization api.pagerduty.com
perplexityApi bearer - api.perplexity.ai
pineconeApi header Api-Key *.pinecone.io
pipedriveApi query api_token api.pipedrive.com *.pipedrive.com
pipedriveOAuth2Api oauth2 - api.pipedrive.com *.pipedrive.com
postmarkApi header X-Postmark-Server-Token api.postmarkapp.com
pushbulletOAuth2Api oauth2 - api.pushbullet.com
pushoverApi body - api.pushover.net
quickBooksOAuth2Api oauth2 - quickbooks.api.intuit.com
raindropOAuth2Api oauth2 - api.raindrop.io
redditOAuth2Api oauth2 - oauth.reddit.com
rocketchatApi custom - -
salesforceOAuth2Api oauth2 - *.salesforce.com
sendGridApi bearer - api.sendgrid.com
sendInBlueApi header api-key api.brevo.com api.sendinblue.com
serpApi query api_key serpapi.com
shopifyAccessTokenApi header X-Shopify-Access-Token *.myshopify.com
slackApi bearer - slack.com files.slack.com
slackOAuth2Api oauth2 - slack.com files.slack.com
spotifyOAuth2Api oauth2 - api.spotify.com
stravaOAuth2Api oauth2 - www.strava.com
stripeApi bearer - api.stripe.com
supabaseApi custom - *.supabase.co
todoistApi bearer - api.todoist.com
todoistOAuth2Api oauth2 - api.todoist.com
togglApi basic - api.track.toggl.com
trelloApi custom - api.trello.com
twilioApi basic - api.twilio.com
twitterOAuth2Api oauth2 - api.twitter.com api.x.com
typeformApi bearer - api.typeform.com
urlScanIoApi header API-KEY urlscan.io
virusTotalApi header x-apikey www.virustotal.com
webflowOAuth2Api oauth2 - api.webflow.com
whatsAppApi bearer - graph.facebook.com
wordpressApi basic - -
xeroOAuth2Api oauth2 - api.xero.com
youTubeOAuth2Api oauth2 - www.googleapis.com youtube.googleapis.com
zendeskApi basic - *.zendesk.com
zendeskOAuth2Api oauth2 - *.zendesk.com
zohoOAuth2Api oauth2 - *.zohoapis.com *.zohoapis.eu
zoomApi bearer - api.zoom.us
zoomOAuth2Api oauth2 - api.zoom.us
"""


@dataclass(frozen=True, slots=True)
class CredentialType:
    """A service's sign-in: its kind, the header or query parameter, and the hosts if they are fixed."""

    name: str
    sign_in: str
    parameter: str | None = None
    hosts: tuple[str, ...] = ()


def _read(line: str) -> CredentialType:
    name, sign_in, parameter, *hosts = line.split()
    fixed = tuple(host for host in hosts if host != "-")
    return CredentialType(name, sign_in, None if parameter == "-" else parameter, fixed)


CREDENTIAL_TYPES = {entry.name: entry for entry in map(_read, _TABLE.strip().splitlines())}


def declare(credential_type: CredentialType) -> None:
    """Adds the sign-in that a node declares. Raises ValueError if it is declared or listed differently."""
    if CREDENTIAL_TYPES.setdefault(credential_type.name, credential_type) != credential_type:
        raise ValueError(f"{credential_type.name} has another sign-in already")
