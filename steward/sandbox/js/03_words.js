// Names of months and weekdays by language; unknown languages get the English ones.

const WORDS = {
  en: [
    'January February March April May June July August September October November December',
    'Sunday Monday Tuesday Wednesday Thursday Friday Saturday',
    'Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec',
    'Sun Mon Tue Wed Thu Fri Sat',
  ],
  de: [
    'Januar Februar März April Mai Juni Juli August September Oktober November Dezember',
    'Sonntag Montag Dienstag Mittwoch Donnerstag Freitag Samstag',
    'Jan Feb Mär Apr Mai Jun Jul Aug Sep Okt Nov Dez',
    'So Mo Di Mi Do Fr Sa',
    'Jan. Feb. März Apr. Mai Juni Juli Aug. Sept. Okt. Nov. Dez.',
    'So. Mo. Di. Mi. Do. Fr. Sa.',
  ],
  fr: [
    'janvier février mars avril mai juin juillet août septembre octobre novembre décembre',
    'dimanche lundi mardi mercredi jeudi vendredi samedi',
    'janv. févr. mars avr. mai juin juil. août sept. oct. nov. déc.',
    'dim. lun. mar. mer. jeu. ven. sam.',
  ],
  es: [
    'enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre',
    'domingo lunes martes miércoles jueves viernes sábado',
    'ene feb mar abr may jun jul ago sept oct nov dic',
    'dom lun mar mié jue vie sáb',
  ],
  it: [
    'gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre',
    'domenica lunedì martedì mercoledì giovedì venerdì sabato',
    'gen feb mar apr mag giu lug ago set ott nov dic',
    'dom lun mar mer gio ven sab',
  ],
  nl: [
    'januari februari maart april mei juni juli augustus september oktober november december',
    'zondag maandag dinsdag woensdag donderdag vrijdag zaterdag',
    'jan feb mrt apr mei jun jul aug sep okt nov dec',
    'zo ma di wo do vr za',
  ],
  sv: [
    'januari februari mars april maj juni juli augusti september oktober november december',
    'söndag måndag tisdag onsdag torsdag fredag lördag',
    'jan. feb. mars apr. maj juni juli aug. sep. okt. nov. dec.',
    'sön mån tis ons tors fre lör',
  ],
  pt: [
    'janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro',
    'domingo segunda-feira terça-feira quarta-feira quinta-feira sexta-feira sábado',
    'jan. fev. mar. abr. mai. jun. jul. ago. set. out. nov. dez.',
    'dom. seg. ter. qua. qui. sex. sáb.',
  ],
};

/** Returns the names of months and weekdays in a locale's language; `form…` are the short names used within a date. */
const wordsIn = (locale) => {
  const language = String(isList(locale) ? locale[0] : (locale ?? 'en')).slice(0, 2).toLowerCase();
  const [months, days, shortMonths, shortDays, formMonths = shortMonths, formDays = shortDays] = (Object.hasOwn(WORDS, language) ? WORDS[language] : WORDS.en).map((line) => line.split(' '));
  if (/^en[-_]GB/.test(String(locale))) [shortMonths, formMonths].forEach((list) => (list[8] = 'Sept'));
  return { months, days, shortMonths, shortDays, formMonths, formDays };
};

const wordOf = (long, short, index, style) =>
  style === 'long' ? long[index] : style === 'short' ? short[index] : long[index][0].toUpperCase();
