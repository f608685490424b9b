// SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
// SPDX-License-Identifier: AGPL-3.0-or-later

/**
 * The search page. AppAPI loads it into an empty #content; it builds everything else.
 *
 * Whatever comes from a document is put on the page as text, never as markup. Of several searches under way only the
 * latest may show its answer.
 */
(() => {
	'use strict'

	const DEBOUNCE_MS = 250
	const TIMEOUT_MS = 30000
	const BUSY_PAUSE_MS = 1000
	const STATUS_INTERVAL_MS = 10000
	const PAGE = 10
	const MOST = 50
	const DAY_S = 86400

	const KINDS = ['file', 'note', 'deck_card']
	const PERIODS = { week: 7, month: 30, year: 365 } // days

	// ---------------------------------------------------------------------------------------------------------- Words

	const WORDS = {
		en: {
			heading: 'Semantic search',
			label: 'What are you looking for?',
			placeholder: 'Ask in your own words',
			clear: 'Clear the search',
			kind: 'Kind',
			all: 'All',
			file: 'File',
			note: 'Note',
			deck_card: 'Card',
			files: 'Files',
			notes: 'Notes',
			deck_cards: 'Cards',
			changed: 'Last changed',
			any: 'Any time',
			week: 'Past week',
			month: 'Past month',
			year: 'Past year',
			welcome: 'Find it by what it means',
			hint: 'Ask a question, or describe what you remember. Files, notes and cards are found even when they use other words, and you only see what you can open.',
			indexed: { one: '{n} of your documents is indexed', other: '{n} of your documents are indexed' },
			indexing: '{n} of {total} documents are indexed. You can search already.',
			unindexed: 'None of your documents is indexed yet.',
			searching: 'Searching…',
			results: { one: '{n} result', other: '{n} results' },
			best: 'The {n} best results',
			more: 'Show more',
			untitled: 'Untitled',
			page: 'Page {n}',
			relevance: 'Relevance: {n}',
			refreshing: 'Changed just now; its new text is being read',
			nothing: 'Nothing that you can open answers this',
			partly: 'Nothing found in what did answer',
			tip: 'Try other words, or ask a whole question.',
			unfilter: 'Remove the filters',
			pending: { one: '{n} of your documents is still being read.', other: '{n} of your documents are still being read.' },
			degraded: 'A part of Nextcloud did not answer just now, so something may be missing.',
			retry: 'Retry',
			reload: 'Reload the page',
			busy: 'Many searches are running just now. Try again in a moment.',
			starting: 'The search is still starting up. Try again in a moment.',
			refused: 'Nextcloud did not let this search through. Reload the page to sign in again.',
			offline: 'You are offline. The search goes on as soon as you are connected again.',
			unreachable: 'Nextcloud cannot be reached just now.',
			slow: 'Nextcloud takes too long to answer.',
			failed: 'The search did not work. Try again in a moment.',
			mine: 'My files can be found',
			mine_in: 'Semantic Search finds your files and notes for you and for the people you share them with.',
			mine_out: 'Your files and notes are left out of Semantic Search: it shows them to nobody, not even to you or the people you share them with. Nothing else in Nextcloud changes, and cards on boards are still found.',
			saving: 'Saving…',
			saved_in: 'Saved. Your files and notes are being read again, which can take a while.',
			saved_out: 'Saved. Your files and notes are no longer shown, and what was kept of their text is being removed.',
			unsaved: 'This could not be saved. Try again; if it fails again, reload the page.',
		},
		de: {
			heading: 'Semantische Suche',
			label: 'Wonach wird gesucht?',
			placeholder: 'In eigenen Worten fragen',
			clear: 'Suche leeren',
			kind: 'Art',
			all: 'Alle',
			file: 'Datei',
			note: 'Notiz',
			deck_card: 'Karte',
			files: 'Dateien',
			notes: 'Notizen',
			deck_cards: 'Karten',
			changed: 'Zuletzt geändert',
			any: 'Alle Zeiträume',
			week: 'Letzte 7 Tage',
			month: 'Letzte 30 Tage',
			year: 'Letzte 12 Monate',
			welcome: 'Finden, was gemeint ist',
			hint: 'Eine Frage stellen oder beschreiben, woran man sich erinnert. Dateien, Notizen und Karten finden sich auch, wenn sie andere Worte verwenden; gezeigt wird nur, was sich öffnen lässt.',
			indexed: { one: '{n} eigenes Dokument ist erfasst', other: '{n} eigene Dokumente sind erfasst' },
			indexing: '{n} von {total} Dokumenten sind erfasst. Gesucht werden kann schon jetzt.',
			unindexed: 'Noch ist kein eigenes Dokument erfasst.',
			searching: 'Suche läuft …',
			results: '{n} Treffer',
			best: 'Die {n} besten Treffer',
			more: 'Mehr anzeigen',
			untitled: 'Ohne Titel',
			page: 'Seite {n}',
			relevance: 'Relevanz: {n}',
			refreshing: 'Gerade geändert; der neue Text wird eben gelesen',
			nothing: 'Kein zugängliches Dokument beantwortet das',
			partly: 'Nichts gefunden in dem, was geantwortet hat',
			tip: 'Andere Worte oder eine ganze Frage helfen oft weiter.',
			unfilter: 'Filter entfernen',
			pending: { one: '{n} eigenes Dokument wird noch gelesen.', other: '{n} eigene Dokumente werden noch gelesen.' },
			degraded: 'Ein Teil von Nextcloud hat gerade nicht geantwortet; es kann etwas fehlen.',
			retry: 'Erneut versuchen',
			reload: 'Seite neu laden',
			busy: 'Gerade laufen viele Suchen. Bitte gleich noch einmal versuchen.',
			starting: 'Die Suche startet noch. Bitte gleich noch einmal versuchen.',
			refused: 'Nextcloud hat die Suche nicht zugelassen. Bitte die Seite neu laden und wieder anmelden.',
			offline: 'Keine Verbindung. Die Suche geht weiter, sobald sie wieder besteht.',
			unreachable: 'Nextcloud ist gerade nicht erreichbar.',
			slow: 'Nextcloud braucht zu lange für eine Antwort.',
			failed: 'Die Suche hat nicht geklappt. Bitte gleich noch einmal versuchen.',
			mine: 'Meine Dateien dürfen gefunden werden',
			mine_in: 'Die semantische Suche findet die eigenen Dateien und Notizen, für einen selbst und für alle, mit denen sie geteilt sind.',
			mine_out: 'Die eigenen Dateien und Notizen bleiben aus der semantischen Suche heraus: Sie zeigt sie niemandem, auch nicht einem selbst oder denen, mit denen sie geteilt sind. Sonst ändert sich in Nextcloud nichts, und Karten werden weiter gefunden.',
			saving: 'Wird gespeichert …',
			saved_in: 'Gespeichert. Die Dateien und Notizen werden neu gelesen; das kann eine Weile dauern.',
			saved_out: 'Gespeichert. Die Dateien und Notizen werden nicht mehr gezeigt, und was von ihrem Text aufbewahrt war, wird entfernt.',
			unsaved: 'Das ließ sich nicht speichern. Bitte noch einmal versuchen; hilft das nicht, die Seite neu laden.',
		},
		fr: {
			heading: 'Recherche sémantique',
			label: 'Que cherchez-vous ?',
			placeholder: 'Demandez avec vos propres mots',
			clear: 'Effacer la recherche',
			kind: 'Type',
			all: 'Tout',
			file: 'Fichier',
			note: 'Note',
			deck_card: 'Carte',
			files: 'Fichiers',
			notes: 'Notes',
			deck_cards: 'Cartes',
			changed: 'Dernière modification',
			any: 'Toutes les dates',
			week: '7 derniers jours',
			month: '30 derniers jours',
			year: '12 derniers mois',
			welcome: 'Trouvez par le sens',
			hint: 'Posez une question ou décrivez ce dont vous vous souvenez. Fichiers, notes et cartes sont trouvés même s’ils emploient d’autres mots, et vous ne voyez que ce que vous pouvez ouvrir.',
			indexed: { one: '{n} de vos documents est indexé', other: '{n} de vos documents sont indexés' },
			indexing: '{n} documents sur {total} sont indexés. Vous pouvez déjà chercher.',
			unindexed: 'Aucun de vos documents n’est encore indexé.',
			searching: 'Recherche en cours…',
			results: { one: '{n} résultat', other: '{n} résultats' },
			best: 'Les {n} meilleurs résultats',
			more: 'Afficher plus',
			untitled: 'Sans titre',
			page: 'Page {n}',
			relevance: 'Pertinence : {n}',
			refreshing: 'Modifié à l’instant ; son nouveau texte est en cours de lecture',
			nothing: 'Rien de ce que vous pouvez ouvrir n’y répond',
			partly: 'Rien trouvé dans ce qui a répondu',
			tip: 'Essayez d’autres mots, ou posez une question complète.',
			unfilter: 'Retirer les filtres',
			pending: { one: '{n} de vos documents est encore en cours de lecture.', other: '{n} de vos documents sont encore en cours de lecture.' },
			degraded: 'Une partie de Nextcloud n’a pas répondu à l’instant ; il peut manquer quelque chose.',
			retry: 'Réessayer',
			reload: 'Recharger la page',
			busy: 'Beaucoup de recherches sont en cours. Réessayez dans un instant.',
			starting: 'La recherche est en cours de démarrage. Réessayez dans un instant.',
			refused: 'Nextcloud n’a pas laissé passer cette recherche. Rechargez la page pour vous reconnecter.',
			offline: 'Vous êtes hors ligne. La recherche reprendra dès que la connexion sera rétablie.',
			unreachable: 'Nextcloud est injoignable pour le moment.',
			slow: 'Nextcloud met trop de temps à répondre.',
			failed: 'La recherche n’a pas abouti. Réessayez dans un instant.',
			mine: 'Mes fichiers peuvent être trouvés',
			mine_in: 'La recherche sémantique trouve vos fichiers et notes, pour vous et pour les personnes avec qui vous les partagez.',
			mine_out: 'Vos fichiers et notes sont exclus de la recherche sémantique : elle ne les montre à personne, pas même à vous ni aux personnes avec qui vous les partagez. Rien d’autre ne change dans Nextcloud, et les cartes restent trouvables.',
			saving: 'Enregistrement…',
			saved_in: 'Enregistré. Vos fichiers et notes sont relus, ce qui peut prendre un moment.',
			saved_out: 'Enregistré. Vos fichiers et notes ne sont plus montrés, et ce qui était conservé de leur texte est en cours de suppression.',
			unsaved: 'L’enregistrement a échoué. Réessayez ; si cela échoue encore, rechargez la page.',
		},
		es: {
			heading: 'Búsqueda semántica',
			label: '¿Qué buscas?',
			placeholder: 'Pregunta con tus propias palabras',
			clear: 'Borrar la búsqueda',
			kind: 'Tipo',
			all: 'Todo',
			file: 'Archivo',
			note: 'Nota',
			deck_card: 'Tarjeta',
			files: 'Archivos',
			notes: 'Notas',
			deck_cards: 'Tarjetas',
			changed: 'Última modificación',
			any: 'Cualquier fecha',
			week: 'Últimos 7 días',
			month: 'Últimos 30 días',
			year: 'Últimos 12 meses',
			welcome: 'Encuentra por el significado',
			hint: 'Haz una pregunta o describe lo que recuerdas. Los archivos, notas y tarjetas se encuentran aunque usen otras palabras, y solo ves lo que puedes abrir.',
			indexed: { one: '{n} de tus documentos está indexado', other: '{n} de tus documentos están indexados' },
			indexing: '{n} de {total} documentos están indexados. Ya puedes buscar.',
			unindexed: 'Aún no hay ningún documento tuyo indexado.',
			searching: 'Buscando…',
			results: { one: '{n} resultado', other: '{n} resultados' },
			best: 'Los {n} mejores resultados',
			more: 'Mostrar más',
			untitled: 'Sin título',
			page: 'Página {n}',
			relevance: 'Relevancia: {n}',
			refreshing: 'Acaba de cambiar; se está leyendo su nuevo texto',
			nothing: 'Nada de lo que puedes abrir responde a esto',
			partly: 'No se encontró nada en lo que sí respondió',
			tip: 'Prueba con otras palabras o haz una pregunta completa.',
			unfilter: 'Quitar los filtros',
			pending: { one: '{n} de tus documentos aún se está leyendo.', other: '{n} de tus documentos aún se están leyendo.' },
			degraded: 'Una parte de Nextcloud no ha respondido ahora mismo; puede que falte algo.',
			retry: 'Reintentar',
			reload: 'Recargar la página',
			busy: 'Hay muchas búsquedas en curso. Inténtalo de nuevo en un momento.',
			starting: 'La búsqueda aún se está iniciando. Inténtalo de nuevo en un momento.',
			refused: 'Nextcloud no ha dejado pasar esta búsqueda. Recarga la página para volver a iniciar sesión.',
			offline: 'No tienes conexión. La búsqueda seguirá en cuanto vuelva.',
			unreachable: 'No se puede contactar con Nextcloud ahora mismo.',
			slow: 'Nextcloud tarda demasiado en responder.',
			failed: 'La búsqueda no ha funcionado. Inténtalo de nuevo en un momento.',
			mine: 'Mis archivos se pueden encontrar',
			mine_in: 'La búsqueda semántica encuentra tus archivos y notas, para ti y para las personas con quienes los compartes.',
			mine_out: 'Tus archivos y notas quedan fuera de la búsqueda semántica: no se muestran a nadie, ni a ti ni a las personas con quienes los compartes. Nada más cambia en Nextcloud, y las tarjetas se siguen encontrando.',
			saving: 'Guardando…',
			saved_in: 'Guardado. Tus archivos y notas se están leyendo de nuevo, lo que puede tardar un rato.',
			saved_out: 'Guardado. Tus archivos y notas ya no se muestran, y lo que se conservaba de su texto se está eliminando.',
			unsaved: 'No se ha podido guardar. Inténtalo de nuevo; si vuelve a fallar, recarga la página.',
		},
	}

	const LANGUAGE = languageOf(document.documentElement.lang)
	const LOCALE = localeOf(document.documentElement.dataset.locale)
	const PLURALS = new Intl.PluralRules(LANGUAGE)
	const NUMBERS = new Intl.NumberFormat(LOCALE)
	const PERCENT = new Intl.NumberFormat(LOCALE, { style: 'percent' })
	const DATES = new Intl.DateTimeFormat(LOCALE, { dateStyle: 'medium' })
	const MOMENTS = new Intl.DateTimeFormat(LOCALE, { dateStyle: 'full', timeStyle: 'short' })
	const RELATIVE = new Intl.RelativeTimeFormat(LOCALE, { numeric: 'auto' })

	/** The language of our words that is nearest to the page's; English when there is none. */
	function languageOf(tag) {
		const language = tag.toLowerCase().split(/[-_]/)[0]
		return Object.prototype.hasOwnProperty.call(WORDS, language) ? language : 'en'
	}

	/** The person's regional format where it fits our language, so that a sentence never mixes two. */
	function localeOf(name = '') {
		const tag = name.replace(/_/g, '-')
		try {
			return new Intl.Locale(tag).language === LANGUAGE ? tag : LANGUAGE
		} catch {
			return LANGUAGE
		}
	}

	/** The sentence `key`; values replace {name}, and a value `n` that is a number picks the plural. */
	function say(key, values = {}) {
		const entry = WORDS[LANGUAGE][key]
		const sentence = typeof entry === 'string' ? entry : entry[PLURALS.select(values.n)] ?? entry.other
		return sentence.replace(/{(\w+)}/g, (_, name) => {
			const value = values[name]
			return typeof value === 'number' ? NUMBERS.format(value) : value
		})
	}

	/** A day that people recognise: "yesterday" within a week, else the date. seconds: since the epoch. */
	function day(seconds) {
		const midnight = (date) => new Date(date).setHours(0, 0, 0, 0)
		const ago = Math.round((midnight(Date.now()) - midnight(seconds * 1000)) / (DAY_S * 1000))
		return ago >= 0 && ago < 7 ? RELATIVE.format(-ago, 'day') : DATES.format(seconds * 1000)
	}

	// ------------------------------------------------------------------------------------------------------ Addresses

	const SCRIPT = new URL(document.currentScript.src)
	const APP = SCRIPT.origin + SCRIPT.pathname.slice(0, SCRIPT.pathname.lastIndexOf('/ui/search.js'))
	const WEB_ROOT = webRoot()

	/** Where Nextcloud lives on its host: what precedes its own part of our address, else what the page says. */
	function webRoot() {
		const end = SCRIPT.pathname.search(/\/(index\.php|apps\/app_api|exapps)\//)
		return end > 0 ? SCRIPT.pathname.slice(0, end) : window._oc_webroot ?? ''
	}

	/** A hit's address on this Nextcloud; empty for anything that would lead elsewhere. */
	function address(link) {
		return typeof link === 'string' && /^\/(?![/\\])/.test(link) ? WEB_ROOT + link : ''
	}

	// ---------------------------------------------------------------------------------------------------------- Pieces

	/** An element; attributes that are null or false are left out, children may be text. */
	function el(name, attributes = {}, ...children) {
		const element = document.createElement(name)
		for (const [key, value] of Object.entries(attributes)) {
			if (value !== null && value !== false) element.setAttribute(key, value === true ? '' : value)
		}
		element.append(...children.filter((child) => child !== null))
		return element
	}

	// The app's icon, filled, on a 20 px grid.
	const EMBLEM = [
		'M8.75 3.4a5.85 5.85 0 1 0 5.793 6.664.85.85 0 0 1 1.684.237A7.55 7.55 0 1 1 8.75 1.7a.85.85 0 0 1 0 1.7Z',
		'm13.701 12.999 4.1 4.1a.85.85 0 0 1-1.202 1.202l-4.1-4.1Z',
		'M14.4.9c.37 2.72 1.48 3.83 4.2 4.2-2.72.37-3.83 1.48-4.2 4.2-.37-2.72-1.48-3.83-4.2-4.2 2.72-.37 3.83-1.48 4.2-4.2Z',
		'M8.2 7.1c.2 1.4.8 2 2.2 2.2-1.4.2-2 .8-2.2 2.2-.2-1.4-.8-2-2.2-2.2 1.4-.2 2-.8 2.2-2.2Z',
	]

	// Outlines on a 24 px grid.
	const OUTLINES = {
		search: 'M10.5 4a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13ZM15.3 15.3 20 20',
		clear: 'm6.5 6.5 11 11m0-11-11 11',
		down: 'm7 10 5 5 5-5',
		file: 'M14 3H7a2 2 0 0 0-2 2v14a2 2 0 0 0 2 2h10a2 2 0 0 0 2-2V8Zm0 0v5h5M9 13h6m-6 4h4',
		note: 'm4 20 1.1-4.3L16.4 4.4a2.3 2.3 0 0 1 3.2 3.2L8.3 18.9ZM14.4 6.4l3.2 3.2M13.5 20H20',
		deck_card: 'M5 4h14a2 2 0 0 1 2 2v12a2 2 0 0 1-2 2H5a2 2 0 0 1-2-2V6a2 2 0 0 1 2-2Zm2 5h10M7 13h6',
		refresh: 'M20 4.5V10h-5.5M19.4 10A8 8 0 1 0 20 13.5',
		notice: 'M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18Zm0 8v5m0-8.5v.01',
		clock: 'M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18Zm0 4.5V12l3.2 2',
		away: 'M7.5 7.3A5.5 5.5 0 0 0 6.2 10 4 4 0 0 0 7 18h10m3.2-1.2a4 4 0 0 0-2-7 6 6 0 0 0-7-4.3M4 4l16 16',
	}

	/** A picture that says nothing to a screen reader. */
	function picture(paths, grid, look) {
		const svg = (name, attributes) => {
			const element = document.createElementNS('http://www.w3.org/2000/svg', name)
			for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value)
			return element
		}
		const drawing = svg('svg', { viewBox: `0 0 ${grid} ${grid}`, class: look, 'aria-hidden': 'true' })
		drawing.append(...paths.map((d) => svg('path', { d })))
		return drawing
	}

	const icon = (name) => picture([OUTLINES[name]], 24, 'sem-icon')
	const emblem = () => picture(EMBLEM, 20, 'sem-emblem')

	function button(words, act, kind = 'sem-button') {
		const element = el('button', { type: 'button', class: kind }, words)
		element.addEventListener('click', act)
		return element
	}

	/** The text as nodes with its highlights marked. marks: [start, end] in code points, as Python counts. */
	function marked(text, marks) {
		const points = Array.from(text)
		const nodes = []
		let done = 0
		for (const [start, end] of [...marks].sort((one, other) => one[0] - other[0])) {
			const from = Math.max(start, done)
			const to = Math.min(end, points.length)
			if (from >= to) continue
			nodes.push(points.slice(done, from).join(''), el('mark', {}, points.slice(from, to).join('')))
			done = to
		}
		return [...nodes, points.slice(done).join('')]
	}

	function relevance(score) {
		const share = PERCENT.format(Math.min(1, Math.max(0, score)))
		const words = say('relevance', { n: share })
		const level = el('span', { class: 'sem-level' })
		level.style.inlineSize = `${Math.round(Math.min(1, Math.max(0, score)) * 100)}%`
		return el('span', { class: 'sem-relevance', role: 'img', 'aria-label': words, title: words }, level)
	}

	/** Where a result lies, on which page, and when it changed: as far as known, each in its own direction. */
	function factsOf({ place, page, mtime }) {
		const facts = []
		if (place) facts.push(el('bdi', {}, place))
		if (page) facts.push(el('bdi', {}, say('page', { n: page })))
		if (mtime > 0) {
			const moment = { datetime: new Date(mtime * 1000).toISOString(), title: MOMENTS.format(mtime * 1000) }
			facts.push(el('time', { ...moment, dir: 'auto' }, day(mtime)))
		}
		return facts
	}

	/** One result. */
	function hitView(hit) {
		const kind = KINDS.includes(hit.kind) ? hit.kind : 'file'
		const href = address(hit.link)
		const title = el(href ? 'a' : 'span', { class: 'sem-title', href: href || null, dir: 'auto' }, hit.title || say('untitled'))
		const facts = factsOf(hit).flatMap((fact, at) => (at ? [' · ', fact] : [fact]))
		const below = el('p', { class: 'sem-facts' }, el('span', { class: 'sem-hidden' }, `${say(kind)}: `), ...facts)
		const head = el('div', { class: 'sem-head' }, el('div', {}, el('h3', { class: 'sem-line' }, title), below), relevance(hit.score))
		const body = el('div', { class: 'sem-body' }, head)
		if (hit.refreshing) {
			body.append(el('p', { class: 'sem-refreshing' }, icon('refresh'), el('bdi', {}, say('refreshing'))))
		} else if (hit.excerpt) {
			body.append(el('p', { class: 'sem-excerpt', dir: 'auto' }, ...marked(hit.excerpt, hit.highlights ?? [])))
		}
		const item = el('li', { class: 'sem-hit' }, el('span', { class: 'sem-tile' }, icon(kind)), body)
		item.addEventListener('click', (event) => openFrom(event, title))
		return item
	}

	/** A click anywhere on a result opens it, unless it ends a selection of text. */
	function openFrom(event, title) {
		if (event.target.closest('a') || !window.getSelection().isCollapsed) return
		title.dispatchEvent(new MouseEvent('click', { bubbles: false, cancelable: true, ctrlKey: event.ctrlKey, metaKey: event.metaKey }))
	}

	function skeleton() {
		const row = () => el(
			'li',
			{ class: 'sem-hit' },
			el('span', { class: 'sem-tile' }),
			el('div', { class: 'sem-body' }, ...['title', 'facts', 'text', 'text'].map((part) => el('span', { class: `sem-bone sem-bone-${part}` }))),
		)
		return el('ol', { class: 'sem-hits sem-skeleton', 'aria-hidden': 'true' }, row(), row(), row())
	}

	/** A centred message with what can be done about it. */
	function message(image, words, ...rest) {
		return el('div', { class: 'sem-message' }, el('span', { class: 'sem-badge' }, image), el('h2', {}, words), ...rest)
	}

	function progressBar(indexed, total) {
		const level = el('span', { class: 'sem-level' })
		level.style.inlineSize = `${Math.round((indexed / total) * 100)}%`
		const range = { 'aria-valuemin': 0, 'aria-valuemax': total, 'aria-valuenow': indexed, 'aria-labelledby': 'sem-progress' }
		return el('div', { class: 'sem-progress', role: 'progressbar', ...range }, level)
	}

	/** How far indexing is, in words and as a bar while it goes on. */
	function statusView({ total, indexed, pending }) {
		if (pending > 0 && total > 0) return [progressBar(indexed, total), el('p', { id: 'sem-progress' }, say('indexing', { n: indexed, total }))]
		return [el('p', {}, indexed > 0 ? say('indexed', { n: indexed }) : say('unindexed'))]
	}

	// --------------------------------------------------------------------------------------------------------- Asking

	/** A search without an answer. words: a sentence for the person; remedy: "retry", "reload" or "none"; outline: its picture. */
	class Trouble extends Error {
		constructor(words, { remedy = 'retry', outline = 'away' } = {}) {
			super(words)
			this.remedy = remedy
			this.outline = outline
		}
	}

	function pause(milliseconds) {
		return new Promise((done) => setTimeout(done, milliseconds))
	}

	/** GET a JSON answer of our app, or PUT `body` there. Throws Trouble, or AbortError when `signal` aborts. */
	async function ask(path, { parameters = {}, body, signal, patient = true }) {
		const url = new URL(APP + path)
		url.search = new URLSearchParams(parameters)
		const headers = { Accept: 'application/json', ...(body && { 'Content-Type': 'application/json' }) }
		const sent = body && { method: 'PUT', body: JSON.stringify(body) }
		let response
		try {
			response = await fetch(url, { headers, cache: 'no-store', signal, ...sent })
		} catch (error) {
			if (error.name === 'AbortError') throw error
			throw new Trouble(say(navigator.onLine ? 'unreachable' : 'offline'))
		}
		if (response.status === 429 && patient) {
			await pause(BUSY_PAUSE_MS)
			return ask(path, { parameters, body, signal, patient: false })
		}
		// Whoever is signed out is led to a page for people.
		const isJson = (response.headers.get('Content-Type') ?? '').includes('json')
		if (response.ok && !isJson) throw trouble(401)
		const answer = isJson ? await response.json() : {}
		if (!response.ok) throw trouble(response.status, answer.error)
		return answer
	}

	function trouble(status, sentence) {
		switch (status) {
		case 400: return new Trouble(sentence || say('failed'), { remedy: 'none', outline: 'notice' })
		case 401:
		case 403:
		case 404: return new Trouble(say('refused'), { remedy: 'reload', outline: 'notice' })
		case 429: return new Trouble(say('busy'), { outline: 'clock' })
		case 503: return new Trouble(say('starting'), { outline: 'clock' })
		default: return new Trouble(say('failed'))
		}
	}

	/** What the person asks, as the API's parameters. */
	function parametersOf({ q, kind, when }, limit) {
		const parameters = { q, limit }
		if (kind) parameters.kind = kind
		if (when) parameters.since = Math.floor(Date.now() / 1000) - PERIODS[when] * DAY_S
		return parameters
	}

	// ------------------------------------------------------------------------------------------------------- My files

	/** The switch by which a person leaves their own files out; not there until the server said how it stands. */
	class Mine {
		constructor(saved) {
			this.saved = saved // what to do once a wish is noted
			this.saving = false
			const names = { id: 'sem-mine', 'aria-describedby': 'sem-mine-words' }
			this.input = el('input', { type: 'checkbox', role: 'switch', class: 'sem-switch', ...names })
			this.words = el('p', { id: 'sem-mine-words', class: 'sem-mine-words' })
			this.outcome = el('p', { class: 'sem-mine-outcome', role: 'status' })
			this.root = el(
				'section',
				{ class: 'sem-mine', 'aria-labelledby': 'sem-mine-label', hidden: true },
				this.input,
				el('div', {}, el('label', { id: 'sem-mine-label', for: 'sem-mine' }, say('mine')), this.words, this.outcome),
			)
			this.input.addEventListener('click', (event) => {
				if (this.saving) event.preventDefault() // one wish at a time; to disable it would take its focus away
			})
			this.input.addEventListener('change', () => this.save(this.input.checked))
		}

		/** How it stands now; null when nobody says, for the page does well without. */
		async look() {
			try {
				const { indexed } = await ask('/api/me', { signal: AbortSignal.timeout(TIMEOUT_MS) })
				return typeof indexed === 'boolean' ? indexed : null
			} catch {
				return null
			}
		}

		async load() {
			const indexed = await this.look()
			if (indexed === null || this.saving) return
			this.show(indexed)
			this.root.hidden = false
		}

		show(indexed) {
			this.input.checked = indexed
			this.words.textContent = say(indexed ? 'mine_in' : 'mine_out')
		}

		/** Note the wish. An answer that got lost says nothing, so the server is asked how it stands. */
		async save(wanted) {
			this.saving = true
			this.input.setAttribute('aria-busy', 'true')
			this.tell(say('saving'))
			let stands = wanted
			try {
				await ask('/api/me', { body: { indexed: wanted }, signal: AbortSignal.timeout(TIMEOUT_MS) })
			} catch {
				stands = (await this.look()) ?? !wanted
			}
			this.saving = false
			this.input.removeAttribute('aria-busy')
			this.show(stands)
			if (stands !== wanted) {
				this.tell(say('unsaved'), 'sem-failed')
				return
			}
			this.tell(say(wanted ? 'saved_in' : 'saved_out'))
			this.saved()
		}

		tell(words, look = '') {
			this.outcome.className = `sem-mine-outcome ${look}`
			this.outcome.textContent = words
		}
	}

	// ----------------------------------------------------------------------------------------------------------- Page

	/** The page and what it remembers: which search is the latest, and how many hits it shows. */
	class SearchPage {
		constructor() {
			this.turn = 0
			this.limit = PAGE
			this.settled = true // what is asked is an entry of its own in the browser's history
			this.running = new AbortController()
			this.timer = 0
			this.pageTitle = document.title
			this.build()
			this.listen()
		}

		build() {
			this.input = el('input', {
				type: 'search', id: 'sem-question', class: 'sem-input', placeholder: say('placeholder'), dir: 'auto',
				autocomplete: 'off', enterkeyhint: 'search', 'aria-keyshortcuts': '/', 'aria-controls': 'sem-panel',
			})
			this.clear = el('button', { type: 'button', class: 'sem-clear', 'aria-label': say('clear'), title: say('clear') }, icon('clear'))
			this.chips = ['', ...KINDS].map((kind) => el(
				'button',
				{ type: 'button', class: 'sem-chip', 'data-kind': kind },
				say(kind ? `${kind}s` : 'all'),
			))
			this.when = el(
				'select',
				{ class: 'sem-when', 'aria-label': say('changed') },
				...['', ...Object.keys(PERIODS)].map((period) => el('option', { value: period }, say(period || 'any'))),
			)
			this.form = el(
				'form',
				{ class: 'sem-form', role: 'search' },
				el('div', { class: 'sem-field' },
					el('label', { class: 'sem-hidden', for: 'sem-question' }, say('label')),
					icon('search'), this.input, el('kbd', { 'aria-hidden': 'true' }, '/'), this.clear),
				el('div', { class: 'sem-filters' },
					el('div', { class: 'sem-chips', role: 'group', 'aria-label': say('kind') }, ...this.chips),
					el('span', { class: 'sem-select' }, this.when, icon('down'))),
			)
			this.panel = el('div', { class: 'sem-panel', id: 'sem-panel' })
			this.live = el('p', { class: 'sem-hidden', role: 'status' })
			this.mine = new Mine(() => this.search(this.limit))
			this.root = el(
				'main',
				{ id: 'semantic-search', lang: LANGUAGE },
				el('div', { class: 'sem-column' }, this.form, this.panel, this.live, this.mine.root),
			)
		}

		/** Take the place of whatever the server left in #content, but for its heading. */
		mount() {
			const content = document.getElementById('content') ?? document.body
			const heading = content.querySelector(':scope > h1') ?? el('h1', { class: 'sem-hidden' }, say('heading'))
			if (content === document.body) content.append(this.root)
			else content.replaceChildren(this.root)
			this.root.prepend(heading)
			this.restore()
			this.mine.load()
			this.input.focus({ preventScroll: true })
		}

		listen() {
			this.form.addEventListener('submit', (event) => {
				event.preventDefault()
				this.search()
				this.settled = true
			})
			this.input.addEventListener('input', (event) => {
				if (!event.isComposing) this.typed()
			})
			this.input.addEventListener('compositionend', () => this.typed())
			this.input.addEventListener('blur', () => { this.settled = true })
			this.clear.addEventListener('click', () => this.wipe())
			for (const chip of this.chips) chip.addEventListener('click', () => this.filter({ kind: chip.dataset.kind }))
			this.when.addEventListener('change', () => this.filter({ when: this.when.value }))
			document.addEventListener('keydown', (event) => this.key(event))
			window.addEventListener('popstate', () => this.restore())
			window.addEventListener('online', () => {
				if (this.panel.querySelector('.sem-trouble')) this.search()
			})
		}

		// What is asked, on the page and in its address

		get question() {
			const pressed = this.chips.find((chip) => chip.getAttribute('aria-pressed') === 'true')
			return { q: this.input.value.trim(), kind: pressed?.dataset.kind ?? '', when: this.when.value }
		}

		show({ q, kind, when }) {
			if (q !== this.input.value.trim()) this.input.value = q
			for (const chip of this.chips) chip.setAttribute('aria-pressed', String(chip.dataset.kind === kind))
			this.when.value = when
			this.when.parentElement.classList.toggle('sem-chosen', when !== '')
			this.form.classList.toggle('sem-filled', this.input.value !== '')
		}

		/** Ask again what the page's address says. */
		restore() {
			const asked = new URLSearchParams(window.location.search)
			const kind = asked.get('kind') ?? ''
			const when = asked.get('when') ?? ''
			this.show({ q: asked.get('q') ?? '', kind: KINDS.includes(kind) ? kind : '', when: Object.keys(PERIODS).includes(when) ? when : '' })
			this.settled = true
			this.search()
		}

		/** Put the question into the page's address: a new entry after a settled one, else in place of the last. */
		remember() {
			const url = new URL(window.location.href)
			for (const [name, value] of Object.entries(this.question)) {
				if (value) url.searchParams.set(name, value)
				else url.searchParams.delete(name)
			}
			if (url.href === window.location.href) return
			window.history[this.settled ? 'pushState' : 'replaceState'](null, '', url)
			this.settled = false
		}

		// What people do

		typed() {
			this.form.classList.toggle('sem-filled', this.input.value !== '')
			clearTimeout(this.timer)
			this.timer = setTimeout(() => this.search(), DEBOUNCE_MS)
		}

		wipe() {
			this.input.value = ''
			this.search()
			this.input.focus()
		}

		filter(change) {
			this.settled = true
			this.show({ ...this.question, ...change })
			this.search()
			this.settled = true
		}

		/** "/" leads to the question, arrows move through the hits, Escape leads back and then clears. */
		key(event) {
			if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return
			const { target } = event
			const writes = target instanceof HTMLElement && (target.isContentEditable || target.matches('input:not([type=checkbox]), textarea, select'))
			const links = [...this.panel.querySelectorAll('.sem-title')]
			const at = links.indexOf(target)
			const step = { ArrowDown: 1, ArrowUp: -1 }[event.key]
			if (event.key === '/' && !writes) {
				this.input.focus()
				this.input.select()
			} else if (step && (at >= 0 || (target === this.input && step > 0 && links.length > 0))) {
				this.step(links, at + step)
			} else if (event.key === 'Escape' && at >= 0) {
				this.input.focus()
			} else if (event.key === 'Escape' && target === this.input && this.input.value) {
				this.wipe()
			} else {
				return
			}
			event.preventDefault()
		}

		step(links, to) {
			const link = links[Math.min(to, links.length - 1)] ?? this.input
			link.focus({ preventScroll: true })
			link.closest('.sem-hit')?.scrollIntoView({ block: 'nearest' })
			if (to < 0) this.root.scrollTop = 0
		}

		// Searching

		/** Ask what the page says now, and show the answer unless something newer was asked meanwhile. */
		async search(limit = PAGE) {
			clearTimeout(this.timer)
			this.running.abort()
			this.running = new AbortController()
			const turn = ++this.turn
			this.limit = limit
			this.remember()
			document.title = [this.question.q, this.pageTitle].filter(Boolean).join(' – ')
			if (!this.question.q) return this.start(turn)
			this.wait()
			const { signal } = this.running
			const alarm = setTimeout(() => turn === this.turn && this.running.abort(), TIMEOUT_MS)
			try {
				const answer = await ask('/api/search', { parameters: parametersOf(this.question, limit), signal })
				if (turn === this.turn) this.answered(answer)
			} catch (error) {
				if (turn === this.turn) this.failed(error.name === 'AbortError' ? new Trouble(say('slow'), { outline: 'clock' }) : error)
			} finally {
				clearTimeout(alarm)
			}
		}

		/** Show something else; whoever had the focus in what goes away gets the question back. */
		render(...nodes) {
			const held = this.panel.contains(document.activeElement)
			this.panel.removeAttribute('aria-busy')
			this.panel.replaceChildren(...nodes)
			if (held) this.input.focus({ preventScroll: true })
		}

		async start(turn) {
			const status = el('div', { class: 'sem-status' })
			this.live.textContent = ''
			this.render(message(emblem(), say('welcome'), el('p', {}, say('hint')), status))
			while (turn === this.turn) {
				const progress = await this.progress()
				if (turn !== this.turn || !progress) return
				status.replaceChildren(...statusView(progress))
				if (!progress.pending) return
				do await pause(STATUS_INTERVAL_MS)
				while (document.hidden)
			}
		}

		/** How far indexing is; null when nobody says, for the page does well without. */
		async progress() {
			try {
				return await ask('/api/status', { signal: this.running.signal })
			} catch {
				return null
			}
		}

		wait() {
			this.live.textContent = say('searching')
			this.panel.setAttribute('aria-busy', 'true')
			if (!this.panel.querySelector('.sem-hits')) {
				this.render(skeleton())
				this.panel.setAttribute('aria-busy', 'true')
			}
		}

		answered({ hits, degraded, cursor }) {
			if (!Array.isArray(hits)) {
				this.failed(new Trouble(say('failed')))
				return
			}
			const cut = Boolean(cursor) && this.limit < MOST
			const verdict = hits.length ? say(cut ? 'best' : 'results', { n: hits.length }) : say(degraded ? 'partly' : 'nothing')
			this.live.textContent = degraded ? `${verdict}. ${say('degraded')}` : verdict
			const view = hits.length
				? [
					el('p', { class: 'sem-count', 'aria-hidden': 'true' }, el('bdi', {}, verdict)),
					el('ol', { class: 'sem-hits', role: 'list' }, ...hits.map(hitView)),
				]
				: [this.nothing(verdict)]
			if (degraded) view.unshift(this.degraded())
			if (cut) view.push(this.more(hits.length))
			this.render(...view)
		}

		degraded() {
			const again = button(say('retry'), () => this.search(this.limit))
			return el('div', { class: 'sem-notice' }, icon('notice'), el('p', {}, el('bdi', {}, say('degraded'))), again)
		}

		/** A button for the next hits; the first of them gets the focus. */
		more(shown) {
			const act = async () => {
				await this.search(this.limit + PAGE)
				const links = this.panel.querySelectorAll('.sem-title')
				links[Math.min(shown, links.length - 1)]?.focus()
			}
			return el('div', { class: 'sem-more' }, button(say('more'), act))
		}

		nothing(verdict) {
			const { kind, when } = this.question
			const still = el('p')
			const turn = this.turn
			this.progress().then((progress) => {
				if (turn === this.turn && progress?.pending) still.textContent = say('pending', { n: progress.pending })
			})
			const wider = kind || when ? button(say('unfilter'), () => this.filter({ kind: '', when: '' })) : ''
			return message(icon('search'), verdict, el('p', {}, say('tip')), still, wider)
		}

		failed(error) {
			if (!(error instanceof Trouble)) window.console.error(error)
			const known = error instanceof Trouble ? error : new Trouble(say('failed'))
			const remedies = {
				retry: () => button(say('retry'), () => this.search(this.limit), 'sem-button sem-primary'),
				reload: () => button(say('reload'), () => window.location.reload(), 'sem-button sem-primary'),
				none: () => '',
			}
			const view = message(icon(known.outline), known.message, remedies[known.remedy]())
			view.classList.add('sem-trouble')
			this.live.textContent = known.message
			this.render(view)
		}
	}

	new SearchPage().mount()
})()
