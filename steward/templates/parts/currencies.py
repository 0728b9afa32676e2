"""Currency codes, and the currencies that a sign can denote."""

# Every active code of ISO 4217.
_ACTIVE = """
    AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BGN BHD BIF BMD BND BOB BRL BSD BTN BWP BYN BZD
    CAD CDF CHF CLF CLP CNY COP CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD
    GNF GTQ GYD HKD HNL HTG HUF IDR ILS INR IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK
    LBP LKR LRD LSL LYD MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD OMR
    PAB PEN PGK PHP PKR PLN PYG QAR RON RSD RUB RWF SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP
    SZL THB TJS TMT TND TOP TRY TTD TWD TZS UAH UGX USD UYU UZS VED VES VND VUV WST XAF XCD XOF XPF YER ZAR
    ZMW ZWG"""
CODES = frozenset(_ACTIVE.split())

_DOLLARS = (
    "USD AUD BBD BMD BND BSD BZD CAD FJD GYD HKD JMD KYD LRD NAD NZD SBD SGD SRD TTD TWD XCD"
    " ARS CLP COP CUP DOP MXN UYU"  # pesos, which share a sign
)

# A sign beside a number, in capitals, and the currencies that it can stand for.
SIGNS = {
    sign: frozenset(codes.split())
    for sign, codes in {
        "$": _DOLLARS,
        "US$": "USD",
        "A$": "AUD",
        "AU$": "AUD",
        "C$": "CAD NIO",
        "CA$": "CAD",
        "HK$": "HKD",
        "NT$": "TWD",
        "NZ$": "NZD",
        "S$": "SGD",
        "MX$": "MXN",
        "R$": "BRL",
        "€": "EUR",
        "£": "GBP EGP FKP GIP LBP SDG SHP SSP SYP",
        "¥": "JPY CNY",
        "￥": "JPY CNY",
        "元": "CNY TWD HKD",
        "円": "JPY",
        "₩": "KRW KPW",
        "₹": "INR",
        "₨": "PKR INR LKR NPR MUR SCR",
        "₽": "RUB",
        "₺": "TRY",
        "₴": "UAH",
        "₫": "VND",
        "₪": "ILS",
        "฿": "THB",
        "₱": "PHP",
        "₦": "NGN",
        "₡": "CRC",
        "₲": "PYG",
        "₸": "KZT",
        "₵": "GHS",
        "₼": "AZN",
        "₾": "GEL",
        "֏": "AMD",
        "KR": "SEK NOK DKK ISK",
        "KR.": "SEK NOK DKK ISK",
        "ZŁ": "PLN",
        "KČ": "CZK",
        "FT": "HUF",
        "FR.": "CHF",
        "LEI": "RON MDL",
        "ЛВ": "BGN",
        "ЛВ.": "BGN",
        "R": "ZAR",
        "RM": "MYR",
        "RP": "IDR",
    }.items()
}


def currencies_of(sign: str) -> frozenset[str] | None:
    """Returns the currencies that a sign or code can denote; None for any other text."""
    capital = sign.upper()
    if capital in CODES:
        return frozenset({capital})
    return SIGNS.get(capital)
