/** How one gets the keys of each kind of account, in steps; the fields themselves are the service's. */

export interface Guide {
  about: string;
  steps: readonly string[];
  /** Where it is found: what to press, one after the other. */
  menuPath?: readonly string[];
  /** Hints at fields, by name. */
  hints?: Readonly<Record<string, string>>;
  /** Fields that only go with another one. */
  beside?: Readonly<Record<string, string>>;
  /** The words of each of two kinds of keys, by the first field they need. */
  alternatives?: Readonly<Record<string, string>>;
}

export const GUIDES: Readonly<Record<string, Guide>> = {
  woocommerce: {
    about: "A WooCommerce shop, on any host.",
    menuPath: ["WooCommerce", "Settings", "Advanced", "REST API", "Add key"],
    steps: [
      "In the shop's WordPress, open WooCommerce, Settings, Advanced, REST API.",
      "Choose Add key. Describe it as Steward, and take a user who may manage the shop.",
      "Permissions: Read/Write. With Read alone automations can look and not change.",
      "Generate the key, and copy both parts here: they are shown there once.",
    ],
    hints: { url: "As one opens it, such as https://shop.example" },
  },
  shopify: {
    about: "A store on Shopify.",
    menuPath: ["Developer dashboard", "Apps", "Your app", "Settings", "Client ID and secret"],
    steps: [
      "In Shopify's developer dashboard, make an app for your own store and install it there.",
      "Give it read and write of products, inventory, orders, customers, publications and fulfilment orders.",
      "Copy the client ID and client secret here. An older app that has a fixed access token: give that instead.",
    ],
    hints: {
      shop_domain: "Such as my-store.myshopify.com",
      webhook_secret: "Without it the store's events cannot be checked, so nothing can start by them.",
    },
    beside: { webhook_secret: "access_token" },
    alternatives: { client_id: "Client ID and secret of an app", access_token: "A fixed access token of an older app" },
  },
  spreadsheet: {
    about: "Spreadsheets of Google Sheets, to read from or to write to.",
    menuPath: ["Google Cloud console", "Service accounts", "Keys", "Add key", "JSON"],
    steps: [
      "In the Google Cloud console, make a service account and add a key of the kind JSON: a file is saved.",
      "Open the spreadsheet, choose Share, and add the service account's address as an editor.",
      "Choose the key file here, and give the spreadsheet's address.",
    ],
    hints: { spreadsheet_id: "Its address in the browser, or the id in it" },
  },
  teams: {
    about: "A Microsoft Teams channel, to send messages to.",
    menuPath: ["Channel", "…", "Workflows", "Post to a channel when a webhook request is received"],
    steps: [
      "In Teams, open the channel's menu and choose Workflows.",
      "Take the one that posts to a channel when a webhook request is received, and finish it.",
      "Copy the address it shows. Anyone who has this address can post: it is stored encrypted and never shown again.",
    ],
  },
  smtp: {
    about: "Your own mail server, to send the messages of imported workflows.",
    steps: [
      "Look up the outgoing mail server (SMTP) in the help of your mail provider: its name and port.",
      "Make a password for apps there if your provider asks for one; your usual password often does not work.",
      "Give the address your customers know as the sender. Steward signs in once to check, and sends nothing.",
    ],
    hints: {
      host: "Such as smtp.example.com",
      port: "465 with tls, 587 with starttls",
      sender: "Such as Northwind Tea <shop@example.com>",
    },
    beside: { password: "user" },
  },
  gmail: {
    about: "A Gmail mailbox, to send messages as the person who signs in.",
    steps: ["Sign in with the Google account whose address your customers know."],
  },
  microsoft_outlook: {
    about: "An Outlook or Microsoft 365 mailbox, to read, change and send mail as the person who signs in.",
    steps: ["Sign in with the Microsoft account whose address your customers know."],
  },
  google_drive: {
    about: "The files of a Google Drive, to read and change as the person who signs in.",
    steps: ["Sign in with the Google account that has the files, or that they are shared with."],
  },
  cloud_s3: {
    about: "Files in S3-compatible storage, to read from.",
    steps: [
      "In your storage, make a key that may list and read one bucket, or one folder of it.",
      "Copy the address of the storage, its region, the bucket's name and both parts of the key here.",
    ],
    hints: { endpoint_url: "Such as https://s3.eu-central-1.amazonaws.com", prefix: "Only files under this are read" },
  },
  http_api: {
    about: "An account of any service with an HTTP API, for steps of imported workflows.",
    steps: [
      "In the service's settings, look for API keys, tokens or apps, and make one for Steward.",
      "Give it no more rights than the workflow needs.",
      "Name the hosts of its API: the key is sent to these alone, whatever a workflow's address says.",
      "A program in your own network can be connected once the person who runs Steward allows its address; if it asks for no key, choose No sign-in.",
      "Give an address that the key may read, if you can: it is tried at once.",
    ],
    hints: {
      hosts: "Such as api.example.com; several with spaces between. *.example.com is every name below it. A program in your own network alone and with its whole address, such as http://localhost:3000",
      test_url: "Such as https://api.example.com/me; it is only read",
      authorize_url: "Such as https://example.com/oauth/authorize",
      person_token_url: "Such as https://example.com/oauth/token",
      header_name: "Such as X-Api-Key",
      query_name: "Such as api_key",
      path_prefix: "Such as /bot",
      custom: 'Such as {"headers": {"App-Key": "…"}, "qs": {"id": "…"}, "auth": {"username": "…", "password": "…"}, "path": {"/bot": "…"}, "body": ["…"]}; leave out what the API does not ask for',
      account: "Empty for one account of these hosts",
    },
    beside: { scope: "client_id", audience: "client_id", client_in: "client_id" },
    alternatives: {
      token: "A token (bearer)",
      header_name: "A key in a header",
      query_name: "A key in the query of the address",
      username: "A user name and a password",
      path_prefix: "A key in the path of the address",
      body_key: "A key in the body",
      client_id: "Client ID and secret of an app (OAuth 2)",
      person_client_id: "A person's sign-in by refresh token (OAuth 2)",
      custom: "Keys in several places of a request",
      sign_in: "No sign-in",
    },
  },
  slack: {
    about: "A Slack workspace, for steps of workflows, or one of its channels, for messages of automations.",
    steps: [
      "At api.slack.com/apps, make an app for your workspace.",
      "For steps of workflows: under OAuth & Permissions add the scopes chat:write, channels:read and users:read, install the app, and copy the bot token. Invite the app to the channels it writes to.",
      "For messages of automations: under Incoming Webhooks add one for the channel, and copy its address.",
    ],
    alternatives: { bot_token: "Token of a bot, for steps of workflows", webhook_url: "Webhook of one channel, for messages of automations" },
  },
  telegram: {
    about: "A Telegram bot, for steps of workflows.",
    menuPath: ["Telegram", "BotFather", "/newbot", "Token"],
    steps: [
      "In Telegram, write /newbot to BotFather, and copy the token it shows.",
      "Add the bot to the groups it writes to. A person has to write to the bot first.",
    ],
  },
  discord: {
    about: "A Discord bot, or the webhook of one channel, for steps of workflows.",
    steps: [
      "For a webhook: in the channel's settings open Integrations, Webhooks, make one and copy its address.",
      "For a bot: in Discord's developer portal make an application with a bot, copy its token, and invite it to your server.",
    ],
    alternatives: { bot_token: "Token of a bot", webhook_url: "Webhook of one channel" },
  },
  mattermost: {
    about: "An account on your Mattermost server, for steps of workflows.",
    menuPath: ["Mattermost", "Profile", "Security", "Personal Access Tokens"],
    steps: ["In Mattermost, open Profile, Security, Personal Access Tokens, or make a bot account, and copy the token."],
    hints: { base_url: "Such as https://chat.example.com" },
  },
  twilio: {
    about: "A Twilio account, for steps of workflows that send text messages.",
    menuPath: ["Twilio console", "Account", "Account SID and Auth Token"],
    steps: ["In the Twilio console, copy the account SID and the auth token from the account's page."],
  },
  whatsapp: {
    about: "A phone number of WhatsApp's Cloud API, for steps of workflows.",
    menuPath: ["Meta developer portal", "Your app", "WhatsApp", "API setup"],
    steps: [
      "In Meta's developer portal, open your app, WhatsApp, API setup, and copy the id of the phone number.",
      "In the business settings, make a system user's token with the right whatsapp_business_messaging.",
    ],
  },
  airtable: {
    about: "Airtable bases, for steps of workflows.",
    menuPath: ["airtable.com/create/tokens", "Create new token", "Token"],
    steps: [
      "At airtable.com/create/tokens, make a token with the scopes data.records:read and data.records:write.",
      "Give it access to the bases the workflow uses, and copy it.",
    ],
  },
  notion: {
    about: "Pages and databases of Notion, for steps of workflows.",
    menuPath: ["notion.so/my-integrations", "Your integration", "Internal Integration Secret"],
    steps: [
      "At notion.so/my-integrations, make an internal integration and copy its secret.",
      "Open each database the workflow uses, and add the integration under Connections.",
    ],
  },
};

/** What became of a sign-in to a spreadsheet account (docs/design/api/connections.md#sign-in). */
export const FAILED: Readonly<Record<string, string>> = {
  denied: "The sign-in was not allowed there, so nothing was connected. Try again and allow it.",
  state: "The sign-in took too long, or was begun in another browser. Nothing was connected; begin it again.",
  exchange: "The account did not confirm the sign-in. Nothing was connected; begin it again.",
};

/** What a state means, and what to do about it. */
export const MEANS: Readonly<Record<string, string>> = {
  connected: "Steward can reach it, and checks that every six hours.",
  needs_reconnecting: "The account refuses the key. Automations that need it do not run until it is reconnected.",
  disconnected: "Its keys are erased. Automations that need it are paused; after reconnecting, resume them one by one.",
};
