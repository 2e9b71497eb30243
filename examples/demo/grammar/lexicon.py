"""The words of the grammar, one per line, with the features that agreement is computed from."""

from __future__ import annotations

from grammar.entries import parse_adjective, parse_noun, parse_verb, rows

# German and gender | genitive | plural | English (/ irregular plural) | semantic classes.
# Professions stand in one gender only, since English does not tell Lehrer from Lehrerin.
_NOUNS = """
Mann m         | Mannes        | Männer        | man/men           | person grown stranger
Frau f         | Frau          | Frauen        | woman/women       | person grown stranger
Junge m        | Jungen        | Jungen        | boy               | person young
Mädchen n      | Mädchens      | Mädchen       | girl              | person young
Kind n         | Kindes        | Kinder        | child/children    | person young
Arzt m         | Arztes        | Ärzte         | doctor            | person grown stranger
Lehrerin f     | Lehrerin      | Lehrerinnen   | teacher           | person grown stranger
Student m      | Studenten     | Studenten     | student           | person grown stranger
Polizist m     | Polizisten    | Polizisten    | police officer    | person grown stranger
Richterin f    | Richterin     | Richterinnen  | judge             | person grown stranger
Bäcker m       | Bäckers       | Bäcker        | baker             | person grown stranger
Köchin f       | Köchin        | Köchinnen     | cook              | person grown stranger
Gast m         | Gastes        | Gäste         | guest             | person grown stranger
Nachbar m      | Nachbarn      | Nachbarn      | neighbour         | person kin
Kollegin f     | Kollegin      | Kolleginnen   | colleague         | person kin work
Chefin f       | Chefin        | Chefinnen     | boss              | person kin work only
Freund m       | Freundes      | Freunde       | friend            | person kin
Bruder m       | Bruders       | Brüder        | brother           | person kin
Schwester f    | Schwester     | Schwestern    | sister            | person kin
Sohn m         | Sohnes        | Söhne         | son               | person kin offspring
Tochter f      | Tochter       | Töchter       | daughter          | person kin offspring
Vater m        | Vaters        | Väter         | father            | person kin elder only
Mutter f       | Mutter        | Mütter        | mother            | person kin elder only
Onkel m        | Onkels        | Onkel         | uncle             | person kin elder
Tante f        | Tante         | Tanten        | aunt              | person kin elder
Großvater m    | Großvaters    | Großväter     | grandfather       | person kin elder only
Großmutter f   | Großmutter    | Großmütter    | grandmother       | person kin elder only
Hund m         | Hundes        | Hunde         | dog               | animal
Katze f        | Katze         | Katzen        | cat               | animal
Pferd n        | Pferdes       | Pferde        | horse             | animal
Vogel m        | Vogels        | Vögel         | bird              | animal
Buch n         | Buches        | Bücher        | book              | text book goods
Roman m        | Romans        | Romane        | novel             | text book goods written
Zeitung f      | Zeitung       | Zeitungen     | newspaper         | text paper
Brief m        | Briefes       | Briefe        | letter            | text written mail
Postkarte f    | Postkarte     | Postkarten    | postcard          | text written mail
Bericht m      | Berichts      | Berichte      | report            | text written
Gedicht n      | Gedichts      | Gedichte      | poem              | text written
Geschichte f   | Geschichte    | Geschichten   | story             | text written tale
Film m         | Films         | Filme         | film              | film
Lied n         | Liedes        | Lieder        | song              | song
Witz m         | Witzes        | Witze         | joke              | tale
Paket n        | Pakets        | Pakete        | parcel            | mail parcel
Suppe f        | Suppe         | Suppen        | soup              | food cooked
Apfel m        | Apfels        | Äpfel         | apple             | food
Kuchen m       | Kuchens       | Kuchen        | cake              | food baked
Brot n         | Brotes        | Brote         | bread             | food baked mass
Pizza f        | Pizza         | Pizzas        | pizza             | food baked
Salat m        | Salats        | Salate        | salad             | food
Fisch m        | Fisches       | Fische        | fish/fish         | food cooked mass
Käse m         | Käses         | Käse          | cheese            | food mass
Kaffee m       | Kaffees       | Kaffees       | coffee            | drink mass hot adult
Tee m          | Tees          | Tees          | tea               | drink mass hot
Milch f        | Milch         | Milch         | milk              | drink mass
Wein m         | Weins         | Weine         | wine              | drink mass adult
Saft m         | Saftes        | Säfte         | juice             | drink mass
Auto n         | Autos         | Autos         | car               | vehicle thing adult
Fahrrad n      | Fahrrads      | Fahrräder     | bicycle           | vehicle thing goods
Motorrad n     | Motorrads     | Motorräder    | motorbike         | vehicle thing adult
Boot n         | Bootes        | Boote         | boat              | vehicle thing built
Zug m          | Zuges         | Züge          | train             | transport
Bus m          | Busses        | Busse         | bus               | transport
Straßenbahn f  | Straßenbahn   | Straßenbahnen | tram              | transport
Mantel m       | Mantels       | Mäntel        | coat              | clothes thing goods worn
Jacke f        | Jacke         | Jacken        | jacket            | clothes thing goods worn
Hemd n         | Hemdes        | Hemden        | shirt             | clothes thing goods worn
Pullover m     | Pullovers     | Pullover      | sweater           | clothes thing goods worn
Hut m          | Hutes         | Hüte          | hat               | clothes thing goods
Lampe f        | Lampe         | Lampen        | lamp              | device thing goods
Kamera f       | Kamera        | Kameras       | camera            | device small thing goods
Computer m     | Computers     | Computer      | computer          | device thing goods
Radio n        | Radios        | Radios        | radio             | device thing goods
Tisch m        | Tisches       | Tische        | table             | furniture thing goods
Stuhl m        | Stuhls        | Stühle        | chair             | furniture thing goods
Schrank m      | Schranks      | Schränke      | cupboard          | furniture thing goods
Bild n         | Bildes        | Bilder        | picture           | picture thing
Schlüssel m    | Schlüssels    | Schlüssel     | key               | small
Tasche f       | Tasche        | Taschen       | bag               | small luggage thing goods
Koffer m       | Koffers       | Koffer        | suitcase          | luggage thing goods
Regenschirm m  | Regenschirms  | Regenschirme  | umbrella          | small thing goods
Fahrkarte f    | Fahrkarte     | Fahrkarten    | ticket            | small
Ring m         | Rings         | Ringe         | ring              | small jewel goods thing
Geschenk n     | Geschenks     | Geschenke     | present           | gift
Blume f        | Blume         | Blumen        | flower            | gift flower
Fenster n      | Fensters      | Fenster       | window            | opening
Tür f          | Tür           | Türen         | door              | opening lockable
Haus n         | Hauses        | Häuser        | house             | building built lockable
Wohnung f      | Wohnung       | Wohnungen     | flat              | building room lockable
Zimmer n       | Zimmers       | Zimmer        | room              | room
Küche f        | Küche         | Küchen        | kitchen           | room
Frage f        | Frage         | Fragen        | question          | matter
Aufgabe f      | Aufgabe       | Aufgaben      | task              | matter
Plan m         | Plans         | Pläne         | plan              | matter
Reise f        | Reise         | Reisen        | trip              | event
Fest n         | Festes        | Feste         | party             | event
Zeit f         | Zeit          | Zeiten        | time              | time mass
Sonne f        | Sonne         | Sonnen        | sun               | sky
Wetter n       | Wetters       | Wetter        | weather           | sky
Seite f        | Seite         | Seiten        | page              | unit
Euro m         | Euros         | Euro          | euro              | unit
Minute f       | Minute        | Minuten       | minute            | unit
Tag m          | Tages         | Tage          | day               | unit span
Woche f        | Woche         | Wochen        | week              | unit span
Monat m        | Monats        | Monate        | month             | unit span
Jahr n         | Jahres        | Jahre         | year              | unit span
Garten m       | Gartens       | Gärten        | garden            | venue
Park m         | Parks         | Parks         | park              | venue
Kino n         | Kinos         | Kinos         | cinema            | venue
Theater n      | Theaters      | Theater       | theatre           | venue
Museum n       | Museums       | Museen        | museum            | venue
Bibliothek f   | Bibliothek    | Bibliotheken  | library/libraries | venue
Bahnhof m      | Bahnhofs      | Bahnhöfe      | station           | venue
Flughafen m    | Flughafens    | Flughäfen     | airport           | venue
Markt m        | Marktes       | Märkte        | market            | venue
Büro n         | Büros         | Büros         | office            | venue
Strand m       | Strandes      | Strände       | beach             | venue
Krankenhaus n  | Krankenhauses | Krankenhäuser | hospital          | venue
"""
NOUNS = tuple(parse_noun(cells) for cells in rows(_NOUNS))
NOUN = {noun.german: noun for noun in NOUNS}

# Principal parts (regular ones left out) | English | arguments | tags.
# Tags of form: sein (its auxiliary), refl, state (no progressive), event (of a moment: neither).
# Tags of place: to, at (needs one); read, eat, rest, work, wait, music, film (uses of a venue).
# Tags of sense: alone (needs no object), brief or long (which times suit it), chance (not done on
# purpose), adult (not for children), get, use, part (come by a thing, enjoy it, be rid of it),
# arrive (may interrupt something), active (has no good passive in English). The rest name kinds of sentence.
_VERBS = """
lesen liest las gelesen                | read read read          | acc=text                       | read use
schreiben schreibt schrieb geschrieben | write wrote written     | acc=written                    | read
kaufen                                 | buy bought bought       | acc=goods,food,gift,paper      | get
verkaufen                              | sell sold sold          | acc=vehicle,furniture,building | part adult
aus+leihen leiht lieh geliehen         | borrow                  | acc=book,vehicle               | get event
mit+bringen bringt brachte gebracht    | bring brought brought +along | acc=food,gift,drink            | brief
essen isst aß gegessen                 | eat ate eaten           | acc=food                       | eat use brief
trinken trinkt trank getrunken         | drink drank drunk       | acc=drink                      | eat brief
kochen                                 | cook                    | acc=cooked                     | use brief
backen backt backte gebacken           | bake                    | acc=baked                      | brief
suchen                                 | look                    | acc/for=small                  | brief
finden findet fand gefunden            | find found found        | acc=small                      | event chance
verlieren verliert verlor verloren     | lose lost lost          | acc=small                      | event chance
vergessen vergisst vergaß vergessen    | forget forgot forgotten | acc=small                      | event chance
besuchen                               | visit                   | acc=person                     |
treffen trifft traf getroffen          | meet met met            | acc=person                     | event
kennen kennt kannte gekannt            | know knew known         | acc=person                     | state
lieben                                 | love                    | acc=kin                        | state
an+rufen ruft rief gerufen             | call                    | acc=person                     | brief
ab+holen                               | pick +up                | acc=person,parcel              | brief
ein+laden lädt lud geladen             | invite                  | acc=person                     | event
fotografieren                          | photograph              | acc=animal,person              | brief
füttern                                | feed fed fed            | acc=animal                     | brief
auf+räumen                             | tidy +up                | acc=room                       | brief
putzen                                 | clean                   | acc=room,opening               | brief
an+ziehen zieht zog gezogen            | put put put +on         | acc=worn                       | event use brief
an+probieren                           | try +on                 | acc=clothes                    | use brief
waschen wäscht wusch gewaschen         | wash                    | acc=clothes,vehicle            | brief
auf+machen                             | open                    | acc=opening                    | event brief
zu+machen                              | close                   | acc=opening                    | event brief
ab+schließen schließt schloss geschlossen | lock                    | acc=lockable                   | event brief
weg+werfen wirft warf geworfen         | throw threw thrown +away | acc=clothes,furniture,paper    | event part brief
ein+packen                             | pack                    | acc=clothes,book               | brief
vor+bereiten                           | prepare                 | acc=event                      |
aus+wählen                             | choose chose chosen     | acc=clothes,gift,book          | event brief
reparieren                             | repair                  | acc=vehicle,device             | adult
benutzen                               | use                     | acc=device                     | use brief
tragen trägt trug getragen             | carry                   | acc=luggage,parcel             | chance brief
bauen                                  | build built built       | acc=built                      | long adult
malen                                  | paint                   | acc=picture                    | rest
singen singt sang gesungen             | sing sang sung          | acc=song                       | music brief
gießen gießt goss gegossen             | water                   | acc=flower                     | brief
an+sehen sieht sah gesehen             | watch                   | acc=film                       | film brief
verstehen versteht verstand verstanden | understand understood understood | acc=matter                     | state
brauchen                               | need                    | acc=goods                      | state
helfen hilft half geholfen             | help                    | dat=person                     |
danken                                 | thank                   | dat=person                     | event brief
antworten                              | answer                  | dat=person                     | event brief active
folgen                                 | follow                  | dat=person                     | sein chance brief
zu+hören                               | listen                  | dat/to=person                  | brief
zu+stimmen                             | agree                   | dat/with=person                | event brief
geben gibt gab gegeben                 | give gave given         | dat/to=person acc=book,small,gift | event brief
an+bieten bietet bot geboten           | offer                   | dat/to=person acc=food,drink   | event brief
zeigen | show showed shown | dat/to=person acc=book,picture,small,vehicle | use brief
schicken                               | send sent sent          | dat/to=person acc=mail         | event
bringen bringt brachte gebracht        | bring brought brought   | dat/to=person acc=food,drink,luggage,mail | brief
leihen leiht lieh geliehen             | lend lent lent          | dat/to=person acc=book,vehicle,luggage | event
erklären                               | explain                 | dat/to=person acc=matter       |
erzählen                               | tell told told          | dat/to=person acc=tale         | brief
warten                                 | wait                    | auf+acc/for=person,transport   | wait brief
sprechen spricht sprach gesprochen     | speak spoke spoken      | mit+dat/to=person              |
denken denkt dachte gedacht            | think thought thought   | an+acc/of=person,event         | chance
träumen                                | dream                   | von+dat/of=vehicle,event       | chance
freuen                                 | look +forward           | auf+acc/to=event               | refl chance
erinnern                               | remember                | an+acc=person,event,tale       | refl state
aus+ruhen | rest |  | refl alone rest brief
beeilen | hurry |  | refl alone chance brief
schlafen schläft schlief geschlafen    | sleep slept slept       |                                | alone rest brief
arbeiten                               | work                    |                                | alone work adult
tanzen                                 | dance                   |                                | alone music
lachen                                 | laugh                   |                                | alone chance brief
fern+sehen sieht sah gesehen           | watch +television       |                                | alone brief
ein+kaufen                             | go went gone +shopping  |                                | alone
aus+gehen geht ging gegangen           | go went gone +out       |                                | alone sein
auf+stehen steht stand gestanden | get got got +up |  | alone sein event brief
auf+wachen | wake woke woken +up |  | alone sein event arrive chance brief
ein+schlafen schläft schlief geschlafen | fall fell fallen +asleep |  | alone sein event chance brief
an+kommen kommt kam gekommen | arrive |  | alone sein event arrive chance
ab+reisen                              | leave left left         |                                | alone sein event
zurück+kommen kommt kam gekommen | come came come +back |  | alone sein event arrive
gehen geht ging gegangen               | go went gone            |                                | sein to venue
fahren fährt fuhr gefahren | drive drove driven |  | sein to city venue adult
fliegen fliegt flog geflogen           | fly flew flown          |                                | sein to city
reisen | travel travelled travelled |  | sein to city means
um+ziehen zieht zog gezogen | move |  | sein to city event adult long
wohnen                                 | live                    |                                | state at city
dauern                                 | last                    |                                | state measure
kosten                                 | cost cost cost          |                                | state measure
sein ist war gewesen                   | be was been             |                                | sein state
haben hat hatte gehabt                 | have had had            | acc=time                       | state
scheinen scheint schien geschienen     | shine shone shone       |                                | sky
regnen                                 | rain                    |                                | sky
schneien                               | snow                    |                                | sky
sagen                                  | say said said           |                                | clause event
glauben                                | believe                 |                                | clause state
hoffen                                 | hope                    |                                | clause state
wissen weiß wusste gewusst             | know knew known         |                                | clause state
fragen                                 | ask                     |                                | ask event
versuchen                              | try                     |                                | infinitive
beschließen beschließt beschloss beschlossen | decide |  | infinitive event
an+fangen fängt fing gefangen          | start                   |                                | infinitive event
vergessen vergisst vergaß vergessen    | forget forgot forgotten |                                | infinitive event
"""
VERBS = tuple(parse_verb(cells) for cells in rows(_VERBS))
VERB = {(verb.lemma, len(verb.arguments)): verb for verb in VERBS}

# German (/ stem) | English | comparatives | classes of noun it may stand before.
_ADJECTIVES = """
alt          | old         | älter      | older            | man woman friend aunt animal thing film
neu          | new         | neuer      | newer            | thing book film building key
jung         | young       | jünger     | younger          | man woman doctor teacher judge animal
klein        | small       | kleiner    | smaller          | young thing animal room parcel
groß         | big         | größer     | bigger           | furniture luggage animal room parcel
schön        | beautiful   | schöner    | more beautiful   | thing building flower song picture gift animal event
billig       | cheap       | billiger   | cheaper          | goods
teuer/teur   | expensive   | teurer     | more expensive   | goods vehicle building gift
rot          | red         | röter      | redder           | clothes vehicle luggage lamp flower
blau         | blue        | blauer     | bluer            | clothes vehicle luggage
schwarz      | black       | schwärzer  | blacker          | clothes animal luggage vehicle
nett         | nice        | netter     | nicer            | grown friend
freundlich   | friendly    | freundlicher | friendlier     | grown friend
klug         | clever      | klüger     | cleverer         | grown animal
fleißig      | hard-working | fleißiger | harder-working   | student teacher baker cook
lang         | long        | länger     | longer           | text film trip
kurz         | short       | kürzer     | shorter          | text film trip
spannend     | exciting    | spannender | more exciting    | book tale film
langweilig   | boring      | langweiliger | more boring    | text film
lustig       | funny       | lustiger   | funnier          | tale film song poem
frisch       | fresh       | frischer   | fresher          | food
warm         | warm        | wärmer     | warmer           | clothes cooked
heiß         | hot         | heißer     | hotter           | hot
kalt         | cold        | kälter     | colder           | drink cooked
leicht       | easy        | leichter   | easier           | matter
schwierig    | difficult   | schwieriger | more difficult  | matter
wichtig      | important   | wichtiger  | more important   | matter report mail
schwer       | heavy       | schwerer   | heavier          | luggage parcel furniture
kaputt       | broken      | kaputter   | more broken      |
schmutzig    | dirty       | schmutziger | dirtier         |
müde         | tired       | müder      | more tired       |
krank        | ill         | kränker    | more ill         |
hungrig      | hungry      | hungriger  | hungrier         |
durstig      | thirsty     | durstiger  | thirstier        |
glücklich    | happy       | glücklicher | happier         |
traurig      | sad         | trauriger  | sadder           |
lecker       | tasty       | leckerer   | tastier          |
"""
ADJECTIVES = tuple(parse_adjective(cells) for cells in rows(_ADJECTIVES))
ADJECTIVE = {adjective.german: adjective for adjective in ADJECTIVES}

# Why people do things: verb | what its object is | what its subject is.
_REASONS = """
lesen        | spannend kurz lustig |
kaufen       | billig schön         |
auswählen    | billig schön         |
verkaufen    | alt                  |
wegwerfen    | alt                  |
reparieren   | kaputt               |
waschen      | schmutzig            |
putzen       | schmutzig            |
aufräumen    | schmutzig            |
anprobieren  | schön billig         |
essen        | lecker               | hungrig
trinken      |                      | durstig
kochen       |                      | hungrig
backen       |                      | hungrig
besuchen     | krank traurig        |
helfen       | krank müde           |
anrufen      | traurig krank        | traurig
einladen     | nett                 |
fotografieren | schön               |
ansehen      | lustig spannend      |
verstehen    | leicht               |
schlafen     |                      | müde
einschlafen  |                      | müde
ausruhen     |                      | müde
lachen       |                      | glücklich
tanzen       |                      | glücklich
ausgehen     |                      | glücklich
abreisen     |                      | traurig krank
"""
OBJECT_REASONS = {verb: tuple(object_.split()) for verb, object_, _ in rows(_REASONS)}
SUBJECT_REASONS = {verb: tuple(subject.split()) for verb, _, subject in rows(_REASONS)}
